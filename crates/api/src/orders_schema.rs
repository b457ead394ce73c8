//! What may be ordered of deliveries, as the document says it: which fields go together. The views read all of them at once.
#![allow(dead_code)]

use crate::schema::EventIdSchema;
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// A flag that must be set.
#[derive(Serialize)]
pub(crate) struct Yes(bool);

impl PartialSchema for Yes {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Boolean)
            .enum_values(Some([true]))
            .description(Some("A flag that must be set."))
            .into()
    }
}

impl ToSchema for Yes {}

/// What to queue again: named events, or dead letters.
#[derive(ToSchema, Serialize)]
#[serde(untagged)]
#[schema(as = Requeue)]
pub(crate) enum RequeueSchema {
    /// Named ones.
    Events(RequeueEventsSchema),
    /// Dead ones.
    Dead(RequeueDeadSchema),
}

/// Events to queue again, each with what waits behind it in its key.
#[derive(ToSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schema(as = RequeueEvents)]
pub(crate) struct RequeueEventsSchema {
    /// These.
    #[schema(min_items = 1)]
    events: Vec<EventIdSchema>,
    /// So many deposits come due a second; without it all at once, as fast as the sink takes them.
    #[schema(required = false, minimum = 1)]
    per_second: Option<u32>,
}

/// Dead letters to queue again: all of a consumer, or those with one status or error.
#[derive(ToSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schema(as = RequeueDead)]
pub(crate) struct RequeueDeadSchema {
    /// Every dead letter of the consumer.
    all_dead: Yes,
    /// Only those whose last attempt got this HTTP status.
    #[schema(required = false)]
    status: Option<u16>,
    /// Only those of the group (`/v1/dead-letters`) with this error.
    #[schema(required = false)]
    error: Option<String>,
    /// So many deposits come due a second; without it all at once, as fast as the sink takes them.
    #[schema(required = false, minimum = 1)]
    per_second: Option<u32>,
}

/// What to send again although it was delivered: named events, or those of a time.
#[derive(ToSchema, Serialize)]
#[serde(untagged)]
#[schema(as = Replay)]
pub(crate) enum ReplaySchema {
    /// Named ones.
    Events(ReplayEventsSchema),
    /// Those decided from a time on, and before another if that is given.
    From(ReplayFromSchema),
    /// Those decided before a time.
    Before(ReplayBeforeSchema),
}

/// Events to send again.
#[derive(ToSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayEvents)]
pub(crate) struct ReplayEventsSchema {
    /// These.
    #[schema(min_items = 1)]
    events: Vec<EventIdSchema>,
    /// So many deposits come due a second; 50 by default.
    #[schema(required = false, minimum = 1)]
    per_second: Option<u32>,
}

/// What was decided from a time on is sent again.
#[derive(ToSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayFrom)]
pub(crate) struct ReplayFromSchema {
    /// At this time (RFC 3339) or later.
    #[schema(format = DateTime)]
    decided_from: String,
    /// Before this time.
    #[schema(required = false, format = DateTime)]
    decided_before: Option<String>,
    /// So many deposits come due a second; 50 by default.
    #[schema(required = false, minimum = 1)]
    per_second: Option<u32>,
}

/// What was decided before a time is sent again.
#[derive(ToSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schema(as = ReplayBefore)]
pub(crate) struct ReplayBeforeSchema {
    /// Before this time (RFC 3339).
    #[schema(format = DateTime)]
    decided_before: String,
    /// So many deposits come due a second; 50 by default.
    #[schema(required = false, minimum = 1)]
    per_second: Option<u32>,
}
