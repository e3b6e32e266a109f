//! The guide for beginners shows the program that is here, so that it compiles and its tests run.

use resurgam_checks::read;
use resurgam_watchdog::test;

#[test]
fn the_program_of_the_first_guide_is_the_one_in_the_folder_letters() {
    let guide = read("docs/getting-started.md");
    let program = read("examples/letters/main.rs");
    let blocks = guide.split("\n```rust").skip(1);
    let code = blocks.map(|block| block.split_once('\n').unwrap().1.split("```").next().unwrap());
    assert_eq!(code.collect::<Vec<_>>().join("\n"), program);
}
