//! The description of the API: OpenAPI 3.1, made from the handlers.

use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder, Schema};

use crate::problem::Problem;

/// What stands at the top of the description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Resurgam",
        description = "Durable workflows and retried activities: looking at them and operating \
                       them.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem)),
    tags(
        (name = "instances", description = "What was started, and what became of it"),
        (name = "calls", description = "Activity calls and what decides about them"),
        (name = "decisions", description = "What waits for somebody: dead letters, paused calls"),
        (name = "policies", description = "What a retry policy does, before it decides"),
        (name = "graphs", description = "Graphs that are kept by name"),
        (name = "schedules", description = "What starts by the clock"),
        (name = "workers", description = "Attempts for workers in any language"),
        (name = "system", description = "Nodes, health and numbers"),
    )
)]
pub(crate) struct Description;

/// An empty page is one of a list and one of groups: the description must not say that it is of one
/// kind only.
fn either(schema: &mut RefOr<Schema>) {
    if let RefOr::T(Schema::OneOf(one)) = schema {
        let items = std::mem::take(&mut one.items).into_iter();
        let any = items.fold(AnyOfBuilder::new(), AnyOfBuilder::item);
        *schema = RefOr::T(Schema::AnyOf(any.build()));
    }
}

/// Adds to every operation that it may answer with a problem.
pub(crate) fn with_problems(mut api: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    for item in api.paths.paths.values_mut() {
        let operations: [&mut Option<Operation>; 4] =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            let response = ResponseBuilder::new()
                .description("Not done; the problem says why")
                .content("application/problem+json", problem)
                .build();
            operation.responses.responses.insert("default".into(), RefOr::T(response));
        }
    }
    let schemas = api.components.iter_mut().flat_map(|components| &mut components.schemas);
    schemas.filter(|(name, _)| name.starts_with("ListOrGroups")).for_each(|(_, it)| either(it));
    api
}
