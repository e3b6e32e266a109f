//! Lines with the comments that belong to them.

use super::{INDENT, Printer};
use crate::errors::Span;

impl Printer<'_> {
    /// A line, with the comments before it, inside of it and behind it.
    pub(super) fn line(&mut self, span: Span, depth: usize, line: String) {
        self.flush(span.start as usize, 0, depth);
        let inside_until = span.end as usize;
        let line_ends = self.text[inside_until..].find('\n');
        let line_ends = line_ends.map_or(self.text.len(), |end| inside_until + end);
        self.blank(span.start as usize);
        let mut behind = None;
        while let Some(comment) = self.comments.get(self.next) {
            let at = comment.span.start as usize;
            if at >= line_ends {
                break;
            }
            self.next += 1;
            match at < inside_until {
                true => self.comment(comment.span, depth),
                false => behind = Some(comment.span),
            }
        }
        self.push(depth, &line);
        if let Some(comment) = behind {
            self.out.pop();
            self.out.push_str("  ");
            self.out.push_str(&self.text_of(comment));
            self.out.push('\n');
        }
    }

    /// The comments before a place that are indented at least this far.
    pub(super) fn flush(&mut self, until: usize, column: usize, depth: usize) {
        while let Some(comment) = self.comments.get(self.next) {
            let at = comment.span.start as usize;
            if at >= until || (comment.alone && self.column(at) < column) {
                return;
            }
            self.next += 1;
            self.blank(at);
            self.comment(comment.span, depth);
        }
    }

    /// Keeps one of the blank lines above a place, except at the beginning of a block.
    fn blank(&mut self, place: usize) {
        let line = self.lines.number(place);
        let above = line > 1 && {
            let (from, to) = (self.lines.start(line - 1), self.lines.start(line));
            self.text[from..to].trim().is_empty()
        };
        if above && !self.first && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
        self.first = false;
    }

    fn comment(&mut self, span: Span, depth: usize) {
        let text = self.text_of(span);
        self.push(depth, &text);
    }

    /// `#` and a blank, unless it is a line of signs.
    fn text_of(&self, span: Span) -> String {
        let text = &self.text[span.start as usize..span.end as usize];
        let inner = text.strip_prefix('#').unwrap_or(text);
        match inner.starts_with(|c: char| c.is_alphanumeric()) {
            true => format!("# {inner}"),
            false => text.to_string(),
        }
    }

    fn push(&mut self, depth: usize, line: &str) {
        self.out.push_str(&" ".repeat(depth * INDENT));
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// The column of a place in its line, from 0.
    pub(super) fn column(&self, place: usize) -> usize {
        let start = self.lines.start(self.lines.number(place));
        let before = self.text[start..place].chars();
        before.map(|c| if c == '\t' { INDENT } else { 1 }).sum()
    }
}
