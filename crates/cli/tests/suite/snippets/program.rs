//! Programs as text.

use resurgam_ir::Program;

use crate::snippets::page::Block;

/// A whole program is checked as it would be before it runs. Lines of one are only parsed: what
/// they call and read stands elsewhere.
pub(crate) fn check(block: &Block) -> Result<(), String> {
    if block.text.contains("fn ") {
        return Program::read("block", &block.text, None).map(|_| ()).map_err(|e| e.to_string());
    }
    let lines = block.text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let whole = format!("fn main(input: [], output: []):\n{lines}");
    resurgam_ir::format("block", &whole, None).map(|_| ()).map_err(|errors| errors.to_string())
}
