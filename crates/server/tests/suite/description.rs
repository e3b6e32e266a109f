//! The description of the API has every route, and no other.

use expect_test::expect;
use resurgam_testing::TestApp;
use resurgam_watchdog::test;
use serde_json::Value;

use crate::support::{get, look, router};

/// The routes of a description, a line for each.
fn routes(description: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["summary"].is_string(), "{method} {path} says nothing");
            assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            lines.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    lines
}

#[test]
async fn the_description_lists_every_route() {
    let app = TestApp::builder().start().await;
    let description = get(&router(&app), "/openapi.json").await;
    assert_eq!(description["openapi"], "3.1.0");
    let schemas = &description["components"]["schemas"];
    assert!(schemas["ListOrGroups_Letter"]["anyOf"].is_array(), "an empty page is one of either");
    expect![[r#"
        GET /api/v1/actions
        GET /api/v1/activities/policies
        POST /api/v1/activities/{name}/actions/{action}
        DELETE /api/v1/activities/{name}/policy
        GET /api/v1/activities/{name}/policy
        PUT /api/v1/activities/{name}/policy
        GET /api/v1/bulk
        POST /api/v1/bulk
        DELETE /api/v1/bulk/{id}
        GET /api/v1/bulk/{id}
        GET /api/v1/calls/{call}
        POST /api/v1/calls/{call}/actions/{action}
        GET /api/v1/calls/{call}/delays
        PUT /api/v1/calls/{call}/policy
        GET /api/v1/dead-letters
        POST /api/v1/dead-letters/actions/{action}
        GET /api/v1/dead-letters/{call}
        POST /api/v1/dead-letters/{call}/actions/{action}
        GET /api/v1/dead-letters/{call}/input
        GET /api/v1/errors/{code}
        GET /api/v1/gates
        DELETE /api/v1/gates/{key}
        GET /api/v1/gates/{key}
        PUT /api/v1/gates/{key}
        POST /api/v1/gates/{key}/actions/{action}
        GET /api/v1/graphs
        DELETE /api/v1/graphs/{name}
        GET /api/v1/graphs/{name}
        PUT /api/v1/graphs/{name}
        GET /api/v1/instances
        POST /api/v1/instances
        DELETE /api/v1/instances/{uid}
        GET /api/v1/instances/{uid}
        GET /api/v1/instances/{uid}/actions
        POST /api/v1/instances/{uid}/actions/{action}
        GET /api/v1/instances/{uid}/argument
        GET /api/v1/instances/{uid}/attempts
        GET /api/v1/instances/{uid}/calls
        POST /api/v1/instances/{uid}/calls/{name}/actions/{action}
        PUT /api/v1/instances/{uid}/calls/{name}/policy
        GET /api/v1/instances/{uid}/events
        GET /api/v1/instances/{uid}/events/{seq}
        GET /api/v1/instances/{uid}/export
        GET /api/v1/instances/{uid}/input
        GET /api/v1/instances/{uid}/newest
        GET /api/v1/instances/{uid}/outcome
        GET /api/v1/instances/{uid}/result
        POST /api/v1/instances/{uid}/signals/{name}
        GET /api/v1/live
        DELETE /api/v1/login
        POST /api/v1/login
        GET /api/v1/nodes
        GET /api/v1/now
        GET /api/v1/paused
        POST /api/v1/paused/actions/{action}
        POST /api/v1/policies/check
        POST /api/v1/policies/convert
        POST /api/v1/policies/eval
        POST /api/v1/policies/explain
        POST /api/v1/policies/simulate
        POST /api/v1/policies/what-if
        GET /api/v1/pressure
        GET /api/v1/queues
        POST /api/v1/queues/{name}/actions/{action}
        GET /api/v1/schedules
        DELETE /api/v1/schedules/{id}
        GET /api/v1/schedules/{id}
        PUT /api/v1/schedules/{id}
        POST /api/v1/schedules/{id}/actions/{action}
        GET /api/v1/schedules/{id}/argument
        GET /api/v1/schedules/{id}/input
        GET /api/v1/search
        GET /api/v1/server
        GET /api/v1/tokens
        POST /api/v1/tokens
        DELETE /api/v1/tokens/{id}
        GET /api/v1/waiting
        POST /api/v1/worker/beat
        POST /api/v1/worker/poll
        POST /api/v1/worker/report
        GET /api/v1/workers
        GET /healthz
        GET /metrics
        GET /readyz"#]]
    .assert_eq(&routes(&description).join("\n"));
}

#[test]
async fn every_route_of_the_description_is_there() {
    let app = TestApp::builder().start().await;
    let router = router(&app);
    for route in routes(&get(&router, "/openapi.json").await) {
        let Some(path) = route.strip_prefix("GET ") else { continue };
        let uid = "0".repeat(31) + "7";
        let path = path.replace("{uid}", &uid).replace("{call}", &format!("{uid}.1.2"));
        let path = path.replace("{seq}", "1").replace("{id}", "x").replace("{name}", "x");
        let answer = look(&router, &path.replace("{code}", "E2")).await;
        let nothing = answer.text.contains("there is nothing at");
        assert!(!nothing && answer.status.as_u16() != 500, "{path}: {answer:?}");
    }
}

/// Routes are added with their descriptions; the only ones without are the description itself and
/// the pages of the dashboard, which are for browsers.
#[test]
fn no_route_is_added_without_its_description() {
    let mut without = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let added = text.split(".route(").skip(1).map(|rest| rest.split(',').next().unwrap());
            without.extend(added.map(str::to_string));
        }
    }
    without.sort();
    assert_eq!(without, ["\"/\"", "\"/openapi.json\"", "\"/ui/\"", "\"/ui/{build}/{*name}\""]);
}
