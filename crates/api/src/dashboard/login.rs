//! Signing in with a token of the API, and out.

use super::Dashboard;
use super::door::Viewer;
use super::fields::Fields;
use super::layout::bare;
use crate::OperatorError;
use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, StatusCode, header};
use maud::{Markup, html};

/// Asks for the token.
pub(super) async fn form(State(page): State<Dashboard>, viewer: Option<Extension<Viewer>>, fields: Fields) -> Response {
    let next = within(fields.text("next"));
    if viewer.is_some() {
        return Redirect::to(next).into_response();
    }
    asking(&page, next, None).into_response()
}

fn asking(page: &Dashboard, next: &str, wrong: Option<&str>) -> Markup {
    bare(
        "Sign in",
        html! {
            form.panel.login method="post" action="/login" {
                h1 { "confirmd" }
                @if let Some(wrong) = wrong {
                    p.alert role="alert" { strong { "Not signed in. " } (wrong) }
                }
                input type="hidden" name="csrf" value=(page.door.csrf);
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token type="password" name="token" autocomplete="current-password" required autofocus aria-describedby="hint";
                p #hint .hint { "The value of " code { "api.admin_token" } ", or of " code { "api.read_token" } " to look only." }
                button.main type="submit" { "Sign in" }
            }
        },
    )
}

/// Begins a session.
pub(super) async fn enter(State(page): State<Dashboard>, headers: HeaderMap, fields: Fields) -> Response {
    let next = within(fields.text("next"));
    let guard = &page.door.guard;
    let Some(role) = guard.access.role_of(fields.text("token")) else {
        let (status, text) = match guard.limits.failed() {
            true => (StatusCode::UNAUTHORIZED, "This token is not one of this instance."),
            false => (StatusCode::TOO_MANY_REQUESTS, "Too many wrong tokens; wait a few seconds."),
        };
        return (status, asking(&page, next, Some(text))).into_response();
    };
    match page.door.sessions.begin(role) {
        Ok(id) => ([(header::SET_COOKIE, page.door.cookie(Some(&id), &headers))], Redirect::to(next)).into_response(),
        Err(error) => super::layout::fault_page(&OperatorError::failed(format!("the system gives no random bytes: {error}"))),
    }
}

/// Ends the session.
pub(super) async fn leave(State(page): State<Dashboard>, headers: HeaderMap) -> Response {
    if let Some(id) = page.door.session_id(&headers) {
        page.door.sessions.end(id);
    }
    ([(header::SET_COOKIE, page.door.cookie(None, &headers))], Redirect::to("/login")).into_response()
}

/// Where to go on: only within this page.
fn within(next: &str) -> &str {
    let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if next.starts_with('/') && !next.starts_with("//") && plain { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn signing_in_leads_nowhere_but_to_this_page() {
        for good in ["/", "/deposits?q=a%20b", "/chains/btc"] {
            assert_eq!(within(good), good);
        }
        for bad in ["", "https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/a\nb", "/\t/evil"] {
            assert_eq!(within(bad), "/");
        }
    }
}
