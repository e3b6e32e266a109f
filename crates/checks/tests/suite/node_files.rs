//! How the files of a node depend on each other: by the items they import, by the methods of the
//! node that they call, and by what they ask of the things that the node remembers.
//! `cargo test -p resurgam-checks node_files -- --nocapture` prints it.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_checks::files;
use resurgam_watchdog::test;

const NODE: &str = "crates/worker/src/node/";

/// Who depends on whom.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The files of a node by their modules (`calls::claim`), without comments and tests.
fn modules() -> BTreeMap<String, String> {
    let of_node = |(path, text): (String, String)| {
        let name = path.strip_prefix(NODE)?.strip_suffix(".rs")?.to_string();
        let name = name.strip_suffix("/mod").map_or(name.clone(), str::to_string);
        let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        Some((name.replace('/', "::"), lines.collect::<Vec<_>>().join("\n")))
    };
    files(".rs").into_iter().filter_map(of_node).collect()
}

/// The paths that a `use` names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.to_string()] };
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inside.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            letter => parts.last_mut().unwrap().push(letter),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| paths(part)).map(|path| format!("{before}{path}")).collect()
}

/// The modules of the node that a module imports from, or names where it needs them.
fn imports(module: &str, code: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let is_folder = all.keys().any(|other| other.starts_with(&format!("{module}::")));
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let uses = format!("\n{code}");
    let uses = uses.split("\nuse ").skip(1).filter_map(|rest| rest.split_once(';'));
    let named = ["super::", "crate::node::"].into_iter().flat_map(|start| {
        let is_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
        let rests = code.match_indices(start).map(|(at, _)| &code[at..]);
        rests.map(move |rest| {
            rest.split(|char| !is_path(char)).next().unwrap_or_default().to_string()
        })
    });
    let mut found = BTreeSet::new();
    for path in uses.flat_map(|(tree, _)| paths(tree)).chain(named) {
        let inside = match (path.strip_prefix("super::"), path.strip_prefix("crate::node::")) {
            (Some(inside), _) => format!("{parent}::{inside}"),
            (None, Some(inside)) => inside.to_string(),
            // A path that begins with a child of the module, or with another crate.
            (None, None) if is_folder => format!("{module}::{path}"),
            (None, None) => continue,
        };
        let inside = inside.trim_start_matches("::");
        let steps: Vec<&str> = inside.split("::").collect();
        let prefixes = (1..=steps.len()).rev().map(|length| steps[..length].join("::"));
        found.extend(prefixes.into_iter().find(|prefix| all.contains_key(prefix)));
    }
    found
}

/// What a module adds to the node.
fn of_node(code: &str) -> String {
    let blocks = code.split("\nimpl Node {\n").skip(1);
    blocks.filter_map(|rest| rest.split("\n}").next()).collect::<Vec<_>>().join("\n")
}

/// The methods of the node that a module has.
fn methods(code: &str) -> Vec<String> {
    let code = of_node(code);
    let names = code.lines().filter_map(|line| {
        let (before, rest) = line.strip_prefix("    ")?.split_once("fn ")?;
        let is_method = before.is_empty() || before.starts_with("pub");
        is_method.then(|| rest.split(['(', '<']).next().unwrap_or_default().to_string())
    });
    names.collect()
}

/// The methods of the node that those of a module call.
fn calls(code: &str) -> BTreeSet<String> {
    let code = of_node(code);
    let mut found = BTreeSet::new();
    for start in ["self", "Node::", "Self::"] {
        for rest in code.split(start).skip(1) {
            let rest = rest.trim_start();
            let rest = if start == "self" { rest.strip_prefix('.') } else { Some(rest) };
            let Some((name, _)) = rest.and_then(|rest| rest.split_once('(')) else { continue };
            if name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
                found.insert(name.to_string());
            }
        }
    }
    found
}

/// The modules that have the methods of the node.
fn owners(modules: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_module = |(module, code): (&String, &String)| {
        methods(code).into_iter().map(|name| (name, module.clone())).collect::<Vec<_>>()
    };
    modules.iter().flat_map(of_module).collect()
}

/// The fields of a struct whose types are in a module of the node, each with that module.
fn fields(name: &str, code: &str, all: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let types: BTreeMap<String, String> = code
        .split("\nuse ")
        .skip(1)
        .filter_map(|rest| rest.split_once(';'))
        .flat_map(|(tree, _)| paths(tree))
        .filter_map(|path| {
            let (module, name) = path.rsplit_once("::")?;
            let module = module.strip_prefix("super::").unwrap_or(module);
            all.contains_key(module).then(|| (name.to_string(), module.to_string()))
        })
        .collect();
    let body = code.split_once(&format!("struct {name} {{\n")).unwrap().1.split("\n}").next();
    let lines = body.unwrap_or_default().lines().filter_map(|line| line.split_once(": "));
    lines
        .filter_map(|(field, of)| {
            let field = field.trim().trim_start_matches("pub(crate) ");
            let words = of.split(|letter: char| !letter.is_alphanumeric());
            let module = words.filter_map(|word| types.get(word)).next()?;
            Some((field.to_string(), module.clone()))
        })
        .collect()
}

/// True when the methods of the node use a field of what is called `of` there.
fn uses(code: &str, of: &str, field: &str) -> bool {
    let code: String = of_node(code).split_whitespace().collect();
    let access = format!("{of}.{field}");
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    code.match_indices(&access).any(|(at, _)| ends(&code[at + access.len()..]))
}

fn graph() -> Graph {
    let modules = modules();
    let owners = owners(&modules);
    let remembered = fields("Memory", &modules["memory"], &modules);
    let mut own = fields("Node", &modules_root(), &modules);
    // What is in the memory counts, field by field, and not the memory.
    own.retain(|(field, _)| field != "memory");
    assert!(remembered.len() > 15 && own.len() > 3, "{remembered:?} {own:?}");
    let mut graph = Graph::new();
    for (module, code) in &modules {
        let called = calls(code).into_iter().filter_map(|name| owners.get(&name).cloned());
        let mut needs = imports(module, code, &modules);
        needs.extend(called);
        for (of, fields) in [("memory", &remembered), ("self", &own)] {
            let used = fields.iter().filter(|(field, _)| uses(code, of, field));
            needs.extend(used.map(|(_, module)| module.clone()));
        }
        needs.remove(module);
        graph.insert(module.clone(), needs);
    }
    graph
}

/// The code of the file that has the node itself.
fn modules_root() -> String {
    let root = format!("{NODE}mod.rs");
    files(".rs").into_iter().find(|(path, _)| *path == root).unwrap().1
}

/// The first way that leads back to where it began.
fn circle(graph: &Graph) -> Option<Vec<String>> {
    fn visit(at: &str, graph: &Graph, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> bool {
        if let Some(place) = way.iter().position(|before| before == at) {
            way.drain(..place);
            way.push(at.to_string());
            return true;
        }
        if done.contains(at) {
            return false;
        }
        way.push(at.to_string());
        for next in graph.get(at).into_iter().flatten() {
            if visit(next, graph, way, done) {
                return true;
            }
        }
        way.pop();
        done.insert(at.to_string());
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    graph.keys().any(|module| visit(module, graph, &mut way, &mut done)).then_some(way)
}

#[test]
fn no_file_of_a_node_depends_on_one_that_depends_on_it() {
    let graph = graph();
    for (module, needs) in &graph {
        println!("{module}: {}", needs.iter().cloned().collect::<Vec<_>>().join(", "));
    }
    let edges: usize = graph.values().map(BTreeSet::len).sum();
    assert!(graph.len() > 40 && edges > 200, "{} files, {edges} edges", graph.len());
    assert_eq!(circle(&graph), None);
}

/// The parts of a node, each above those before it.
const PARTS: [&str; 8] =
    ["steps", "gates", "calls", "remote", "runs", "placement", "housekeeping", "clients"];

/// How high the part is that a module is in.
fn level(module: &str) -> Option<usize> {
    let part = module.split("::").next().unwrap_or_default();
    PARTS.iter().position(|name| *name == part)
}

/// A method of a part never calls one of a part above it: what it has for that goes on the work
/// list. What another part remembers it may ask.
#[test]
fn a_part_of_a_node_calls_only_those_below_it() {
    let modules = modules();
    let owners = owners(&modules);
    let (mut upward, mut counted) = (Vec::new(), 0);
    for (module, code) in &modules {
        for (name, owner) in calls(code).iter().filter_map(|name| owners.get_key_value(name)) {
            let (Some(from), Some(to)) = (level(module), level(owner)) else { continue };
            counted += 1;
            if to > from {
                upward.push(format!("{module} calls {name} of {owner}"));
            }
        }
    }
    assert!(counted > 200, "{counted} calls");
    assert_eq!(upward, Vec::<String>::new());
}

/// Every folder is a part: one that is not among the parts would go unchecked.
#[test]
fn every_folder_of_a_node_is_one_of_its_parts() {
    let modules = modules();
    let folders = modules.keys().filter_map(|module| module.split_once("::"));
    let folders: BTreeSet<&str> = folders.map(|(folder, _)| folder).collect();
    assert_eq!(folders, PARTS.into_iter().collect());
}

/// The methods that change what they are called on.
fn changing(code: &str) -> BTreeSet<String> {
    let heads = code.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
    let changes = heads.filter(|(_, rest)| rest.trim_start().starts_with("&mut self"));
    changes.map(|(name, _)| name.split('<').next().unwrap_or_default().to_string()).collect()
}

/// What the methods of the node do to something they remember: the names of the methods of it that
/// they call, and `&mut` where they have all of it to change.
fn done_to(code: &str, field: &str) -> BTreeSet<String> {
    let code: String = of_node(code).split_whitespace().collect();
    let is_name = |char: char| char.is_alphanumeric() || char == '_';
    let access = format!("self.memory.{field}");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(&access) {
        let rest = &code[at + access.len()..];
        if code[..at].ends_with("&mut") && !rest.starts_with(is_name) && !rest.starts_with('.') {
            found.insert("&mut".to_string());
        }
        if let Some((name, _)) = rest.strip_prefix('.').and_then(|rest| rest.split_once('('))
            && name.chars().all(is_name)
        {
            found.insert(name.to_string());
        }
    }
    found
}

/// What a part may tell the memory of one above it. Each is a notice, of which nothing follows
/// before the part above is told something itself.
const NOTICES: [&str; 14] = [
    // What was read of a call, or of its run, is out of date.
    "calls changes reports: call_changes",
    "calls changes runs: call_is_here",
    "calls changes runs: call_leaves",
    "calls changes runs: look_when_stored",
    // Who may run an attempt of a call: a run that is loaded asks them.
    "calls changes runs: call_is_elsewhere",
    "calls changes runs: call_is_shared",
    "remote changes runs: call_is_elsewhere",
    // When a dead letter is to be deleted.
    "calls changes sweeper: not_later_than",
    // Times, lines and outages are in files that know no node; gates are behind the slots.
    "gates changes due: look_again",
    "gates changes due: rescan",
    "gates changes outages: begin",
    "gates changes slots: forget_lines",
    "gates changes slots: gates_mut",
    "gates changes slots: ticket",
];

/// What a part remembers is changed by it and by those above it, but for the notices.
#[test]
fn a_part_of_a_node_changes_nothing_that_one_above_it_remembers_but_by_a_notice() {
    let modules = modules();
    let remembered = fields("Memory", &modules["memory"], &modules);
    let mut upward = BTreeSet::new();
    for (field, owner) in &remembered {
        let Some(to) = level(owner) else { continue };
        let changing = changing(&modules[owner]);
        for (module, code) in &modules {
            let Some(from) = level(module).filter(|from| *from < to) else { continue };
            let done = done_to(code, field).into_iter();
            let done = done.filter(|name| name == "&mut" || changing.contains(name));
            upward.extend(done.map(|name| format!("{} changes {field}: {name}", PARTS[from])));
        }
    }
    assert_eq!(upward, NOTICES.map(str::to_string).into());
}

/// A part is a folder; what is in it keeps its fields to itself, so that others ask instead.
#[test]
fn no_part_of_a_node_lets_others_at_its_fields() {
    let is_part = |module: &String| module.contains("::");
    let parts: Vec<_> = modules().into_iter().filter(|(module, _)| is_part(module)).collect();
    assert!(parts.len() > 30, "{} files in parts", parts.len());
    let mut open = Vec::new();
    for (module, code) in &parts {
        let fields = code.lines().filter_map(|line| line.strip_prefix("    pub(crate) "));
        let fields =
            fields.filter(|field| field.split_once(':').is_some_and(|(name, _)| is_name(name)));
        open.extend(fields.map(|field| format!("{module}: {field}")));
    }
    assert_eq!(open, Vec::<String>::new());
}

fn is_name(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_lowercase() || char == '_')
}

#[test]
fn a_circle_is_found() {
    let graph = |edges: &[(&str, &str)]| -> Graph {
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry((*from).to_string()).or_default().insert((*to).to_string());
        }
        graph
    };
    assert_eq!(circle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = circle(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap();
    assert_eq!(found, ["b", "c", "b"]);
    let code = "\nuse super::{a, b::{C, d::E}};\nimpl Node {\n    pub(crate) fn f(&self) {\n        \
                self\n            .g();\n    }\n}\n";
    assert_eq!(paths("super::{a, b::{C, d::E}}"), ["super::a", "super::b::C", "super::b::d::E"]);
    assert_eq!((methods(code), calls(code)), (vec!["f".to_string()], ["g".to_string()].into()));
    let all = BTreeMap::from([("a::b".to_string(), String::new())]);
    let memory = "\nuse super::a::b::{C, D};\npub(crate) struct Memory {\n    pub(crate) c: C,\n    \
                  pub(crate) ds: Vec<D>,\n    pub(crate) e: u64,\n}\n";
    let of_b = |name: &str| (name.to_string(), "a::b".to_string());
    assert_eq!(fields("Memory", memory, &all), [of_b("c"), of_b("ds")]);
    let all = ["a", "a::b", "a::c", "d"].map(|name| (name.to_string(), String::new())).into();
    let of = |module, code| imports(module, code, &all).into_iter().collect::<Vec<_>>();
    assert_eq!(of("a", "\nuse b::{C, D};\nuse std::fmt;\nuse super::d::E;\n"), ["a", "a::b", "d"]);
    assert_eq!(of("a::b", "\nuse super::{F, c::G};\nuse std::d;\n"), ["a", "a::c"]);
    assert_eq!(of("d", "fn f() -> crate::node::a::c::G {}\n"), ["a::c"]);
    let code =
        "\nimpl Node {\n    fn f(&self) {\n        self.memory\n            .ds.g();\n    }\n}\n";
    assert_eq!([uses(code, "memory", "ds"), uses(code, "memory", "d")], [true, false]);
    assert_eq!(done_to(code, "ds"), ["g".to_string()].into());
    assert_eq!(done_to(code, "d"), BTreeSet::new());
    let code = "\nimpl Node {\n    fn f(&mut self) {\n        h(&mut self.memory.ds);\n    }\n}\n";
    assert_eq!(done_to(code, "ds"), ["&mut".to_string()].into());
    let code = "    fn a(&self) {}\n    fn b<T>(\n        &mut self,\n        of: T,\n    ) {}\n";
    assert_eq!(changing(code), ["b".to_string()].into());
}
