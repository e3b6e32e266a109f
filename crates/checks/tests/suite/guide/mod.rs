//! Guides whose tables are made by the code: between `<!-- table: NAME -->` and `<!-- end -->`
//! stands what the code says about NAME. `UPDATE_EXPECT=1` writes it there.

use std::path::PathBuf;

use expect_test::expect_file;

/// A guide in the folder `docs`.
pub(crate) struct Guide(PathBuf);

impl Guide {
    pub(crate) fn named(file: &str) -> Self {
        Guide(resurgam_checks::root().join("docs").join(file))
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    /// Compares every table with the one of this name that the code makes.
    pub(crate) fn check_tables(&self, table: impl Fn(&str) -> String) {
        let mut made = String::new();
        let mut kept = true;
        for line in self.text().lines() {
            kept |= line == "<!-- end -->";
            if kept {
                made += &format!("{line}\n");
            }
            let name = line.strip_prefix("<!-- table: ").and_then(|rest| rest.strip_suffix(" -->"));
            if let Some(name) = name {
                made += &format!("\n{}\n", table(name));
                kept = false;
            }
        }
        assert!(kept, "a table has no end");
        expect_file![&self.0].assert_eq(&made);
    }
}
