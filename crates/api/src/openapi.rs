//! The document of the API: made from the handlers, so that it can't say anything else than they do.

use crate::problem::{Problem, ProblemType};
use crate::routes;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, Required, Response, ResponseBuilder};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "confirmd",
        description = "What an operator can ask and order of one instance.\n\nTimes are RFC 3339 in UTC, amounts are strings of base units, \
        lists come in pages (`next` of one page is `after` of the next question). Every error is `application/problem+json` with a stable \
        `type`. A change needs the header `X-Confirmd-Request: 1` and, if it has a body, `Content-Type: application/json`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    tags(
        (name = "instance", description = "Is it alive, is it ready, how does everything stand"),
        (name = "chains", description = "Configured networks"),
        (name = "addresses", description = "Watched addresses"),
        (name = "rescans", description = "Past blocks, read again for what was added later"),
        (name = "deposits", description = "What was paid, and what became of it"),
        (name = "events", description = "Decisions, to be pulled"),
        (name = "deliveries", description = "Events on their way to consumers"),
        (name = "consumers", description = "Configured sinks and their records"),
    ),
    components(schemas(Problem))
)]
struct Head;

/// Everything but the routes.
pub(crate) fn head() -> OpenApi {
    let mut head = Head::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut head.info.version);
    head
}

/// Puts to every operation the errors that any of them may answer with, and how to show a token.
pub(crate) fn completed(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    for problem in ProblemType::ALL {
        components.responses.insert(response_name(problem), RefOr::T(response(problem)));
    }
    // A body whose fields all have a default may be left out.
    let schemas = components.schemas.clone();
    let no_token = SecurityRequirement::default();
    document.security = Some(vec![no_token, SecurityRequirement::new::<_, [&str; 0], &str>("token", [])]);
    for (method, operation) in document.paths.paths.values_mut().flat_map(operations_mut) {
        if let Some(body) =
            operation.request_body.as_mut().and_then(|body| if let RefOr::T(body) = body { Some(body) } else { None })
        {
            let schema = |content: &RefOr<Content>| if let RefOr::T(content) = content { content.schema.clone() } else { None };
            let needs = body.content.values().filter_map(schema).any(|schema| needs_fields(&schema, &schemas));
            body.required = Some(if needs { Required::True } else { Required::False });
        }
        if method != "GET" {
            operation.parameters.get_or_insert_default().push(RefOr::T(on_purpose()));
        }
        for problem in ProblemType::ALL {
            let status = problem.parts().1.as_str().to_owned();
            let reference = RefOr::Ref(Ref::from_response_name(response_name(problem)));
            operation.responses.responses.entry(status).or_insert(reference);
        }
    }
    document
}

fn response_name(problem: ProblemType) -> String {
    let words = problem.parts().0.split('-');
    let capital =
        |word: &str| word.chars().enumerate().map(|(at, c)| if at == 0 { c.to_ascii_uppercase() } else { c }).collect::<String>();
    words.map(capital).collect()
}

fn response(problem: ProblemType) -> Response {
    let (name, status) = problem.parts();
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let description = format!("`urn:confirmd:{name}`: {}", status.canonical_reason().unwrap_or("error").to_lowercase());
    ResponseBuilder::new().description(description).content("application/problem+json", content).build()
}

/// Whether an object of this schema must have fields.
fn needs_fields(schema: &RefOr<Schema>, known: &BTreeMap<String, RefOr<Schema>>) -> bool {
    match schema {
        RefOr::Ref(to) => {
            let name = to.ref_location.rsplit('/').next().unwrap_or_default();
            known.get(name).is_some_and(|schema| needs_fields(schema, known))
        }
        RefOr::T(Schema::Object(object)) => !object.required.is_empty(),
        RefOr::T(_) => false,
    }
}

/// The header that every change carries.
fn on_purpose() -> Parameter {
    let one = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["1"]));
    ParameterBuilder::new()
        .name("X-Confirmd-Request")
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some("A change on purpose: no web page of another origin can send it."))
        .schema(Some(one))
        .build()
}

fn operations_mut(item: &mut utoipa::openapi::PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let (get, post, put) = (item.get.as_mut(), item.post.as_mut(), item.put.as_mut());
    let all = [("GET", get), ("POST", post), ("PUT", put), ("DELETE", item.delete.as_mut()), ("PATCH", item.patch.as_mut())];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation?)))
}

/// The document as JSON: what `GET /openapi.json` answers and `confirmd openapi` prints.
pub fn json() -> &'static str {
    static JSON: LazyLock<String> =
        LazyLock::new(|| routes::document().to_pretty_json().expect("invariant: a document is plain data"));
    &JSON
}

/// Every operation as `(method, path)`.
pub fn operations() -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (path, item) in routes::document().paths.paths {
        let methods =
            [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put), ("DELETE", &item.delete), ("PATCH", &item.patch)];
        all.extend(methods.into_iter().filter(|(_, operation)| operation.is_some()).map(|(method, _)| (method, path.clone())));
    }
    all
}

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font: 0.9em/1.4 ui-monospace, monospace; }
pre { background: var(--soft); padding: 0.6rem; overflow-x: auto; }
details { border: 1px solid var(--line); border-radius: 6px; margin: 0.4rem 0; padding: 0.3rem 0.7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: 0.25rem 0.5rem 0.25rem 0; text-align: left; vertical-align: top; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
";

/// The document as a page that loads nothing from anywhere.
pub fn page() -> String {
    let document: serde_json::Value = serde_json::from_str(json()).unwrap_or_default();
    let mut by_tag: BTreeMap<&str, String> = BTreeMap::new();
    for (path, item) in at(&document, "/paths").as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let tag = at(operation, "/tags/0").as_str().unwrap_or("other");
            by_tag.entry(tag).or_default().push_str(&operation_html(method, path, operation));
        }
    }
    let mut body = format!("<p>{}</p>", paragraphs(text(at(&document, "/info/description"))));
    for tag in at(&document, "/tags").as_array().into_iter().flatten() {
        let name = text(at(tag, "/name"));
        let operations = by_tag.remove(name).unwrap_or_default();
        body.push_str(&format!("<h2>{}</h2><p>{}</p>{operations}", escaped(name), escaped(text(at(tag, "/description")))));
    }
    body.push_str("<h2>schemas</h2>");
    for (name, schema) in at(&document, "/components/schemas").as_object().into_iter().flatten() {
        body.push_str(&schema_html(name, schema));
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>confirmd API</title><style>{STYLE}</style></head><body><h1>confirmd API {}</h1>\
         <p><a href=\"/openapi.json\">openapi.json</a></p>{body}</body></html>",
        escaped(text(at(&document, "/info/version")))
    )
}

fn operation_html(method: &str, path: &str, operation: &serde_json::Value) -> String {
    let mut inside = format!("<p>{}</p>", paragraphs(text(at(operation, "/description"))));
    let rows: String = at(operation, "/parameters").as_array().into_iter().flatten().map(parameter_html).collect();
    if !rows.is_empty() {
        inside.push_str(&format!("<table><tr><th>parameter</th><th>type</th><th>meaning</th></tr>{rows}</table>"));
    }
    for (kind, content) in at(operation, "/requestBody/content").as_object().into_iter().flatten() {
        inside.push_str(&format!("<p>body: <code>{}</code>, {}</p>", escaped(kind), type_html(at(content, "/schema"))));
    }
    for (status, response) in at(operation, "/responses").as_object().into_iter().flatten() {
        for (kind, content) in at(response, "/content").as_object().into_iter().flatten() {
            let shape = type_html(at(content, "/schema"));
            inside.push_str(&format!("<p>{}: <code>{}</code>, {shape}</p>", escaped(status), escaped(kind)));
        }
    }
    format!(
        "<details><summary><span class=\"method\">{}</span><code>{}</code> {}</summary>{inside}</details>",
        method.to_uppercase(),
        escaped(path),
        escaped(text(at(operation, "/summary")))
    )
}

fn parameter_html(parameter: &serde_json::Value) -> String {
    let name = escaped(text(at(parameter, "/name")));
    let place = escaped(text(at(parameter, "/in")));
    let meaning = escaped(text(at(parameter, "/description")));
    format!("<tr><td><code>{name}</code> ({place})</td><td>{}</td><td>{meaning}</td></tr>", type_html(at(parameter, "/schema")))
}

fn schema_html(name: &str, schema: &serde_json::Value) -> String {
    let description = escaped(text(at(schema, "/description")));
    let field = |(name, field): (&String, &serde_json::Value)| {
        let meaning = escaped(text(at(field, "/description")));
        format!("<tr><td><code>{}</code></td><td>{}</td><td>{meaning}</td></tr>", escaped(name), type_html(field))
    };
    let rows: String = at(schema, "/properties").as_object().into_iter().flatten().map(field).collect();
    let shape = if rows.is_empty() { format!("<p>{}</p>", type_html(schema)) } else { format!("<table>{rows}</table>") };
    let id = escaped(name);
    format!("<details id=\"{id}\"><summary><code>{id}</code></summary><p>{description}</p>{shape}</details>")
}

/// What a schema is, in few words, with links to the named ones.
fn type_html(schema: &serde_json::Value) -> String {
    if let Some(name) = at(schema, "/$ref").as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escaped(name);
        return format!("<a href=\"#{name}\"><code>{name}</code></a>");
    }
    if let Some(values) = at(schema, "/enum").as_array() {
        return values.iter().map(|value| format!("<code>{}</code>", escaped(text(value)))).collect::<Vec<_>>().join(", ");
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(all) = at(schema, &format!("/{several}")).as_array() {
            return all.iter().map(type_html).collect::<Vec<_>>().join(" or ");
        }
    }
    match at(schema, "/type") {
        serde_json::Value::String(kind) if kind == "array" => format!("list of {}", type_html(at(schema, "/items"))),
        serde_json::Value::String(kind) => escaped(kind),
        serde_json::Value::Array(kinds) if kinds.iter().any(|kind| kind == "array") => {
            format!("list of {}", type_html(at(schema, "/items")))
        }
        serde_json::Value::Array(kinds) => kinds.iter().map(|kind| escaped(text(kind))).collect::<Vec<_>>().join(" or "),
        _ => "any JSON".to_owned(),
    }
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn paragraphs(text: &str) -> String {
    escaped(text).replace("\n\n", "</p><p>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What stands at a place of a document; nothing counts as `null`.
fn at<'a>(value: &'a serde_json::Value, place: &str) -> &'a serde_json::Value {
    value.pointer(place).unwrap_or(&serde_json::Value::Null)
}
