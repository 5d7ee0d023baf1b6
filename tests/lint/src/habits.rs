//! Habits that make code slow to read, each with what to write instead.

use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::sources;

#[test]
fn no_file_has_a_habit_that_slows_its_readers() {
    let files = sources();
    assert!(files.len() > 300, "only {} files were read", files.len());
    let found: Vec<String> = files.iter().flat_map(|(path, file)| habits(path, file)).collect();
    assert!(found.is_empty(), "{} habits:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_habit_is_seen() {
    let examples = [
        ("fn f() { let (a, b) = (1, 2); }", "one `let` a value"),
        ("fn f() { let (mut a, b): (u8, u8) = (1, 2); }", "one `let` a value"),
        ("fn f(x: bool) -> u8 { match x { true => 1, false => 2 } }", "`if`"),
        ("fn f(x: bool) -> u8 { match x { true if g() => 1, _ => 2 } }", "`if`"),
        ("fn f(x: u8) { match () { () if x > 1 => {} () => {} } }", "early returns"),
        ("struct S { field: Option<Option<u8>> }", "an enum of its own"),
        ("enum Into { A }", "the prelude"),
    ];
    for (text, advice) in examples {
        let found = habits(Path::new("example.rs"), &syn::parse_file(text).unwrap());
        assert!(matches!(&found[..], [one] if one.contains(advice)), "{text}: {found:?}");
    }
    let fine = "fn f() { let (a, b) = g(); let (Some(a), Some(b)) = (g(), h()) else { return }; match (a, b) { (true, _) => {} _ => {} } }";
    assert_eq!(habits(Path::new("fine.rs"), &syn::parse_file(fine).unwrap()), Vec::<String>::new());
}

/// Returns a line for each habit found.
fn habits(path: &Path, file: &syn::File) -> Vec<String> {
    let mut reader = Reader { path, found: Vec::new() };
    reader.visit_file(file);
    reader.found
}

struct Reader<'a> {
    path: &'a Path,
    found: Vec<String>,
}

impl Reader<'_> {
    fn note(&mut self, at: impl Spanned, what: &str) {
        self.found.push(format!("{}:{}: {what}", self.path.display(), at.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        let pattern = match &local.pat {
            syn::Pat::Type(typed) => &typed.pat,
            other => other,
        };
        // With `else` the patterns are a condition on all values together.
        let value = local.init.as_ref().filter(|init| init.diverge.is_none()).map(|init| &*init.expr);
        if let (syn::Pat::Tuple(_), Some(syn::Expr::Tuple(_))) = (pattern, value) {
            self.note(local, "a tuple of unrelated values: write one `let` a value");
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_match(&mut self, found: &'ast syn::ExprMatch) {
        if found.arms.iter().any(|arm| is_bool(&arm.pat)) {
            self.note(found, "a match on a bool: write `if` and `else`");
        }
        if matches!(&*found.expr, syn::Expr::Tuple(tuple) if tuple.elems.is_empty()) {
            self.note(found, "a match on `()`: write early returns, or `if` and `else if`");
        }
        visit::visit_expr_match(self, found);
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        if inner_option(path).and_then(inner_option).is_some() {
            self.note(path, "an option of an option: write an enum of its own");
        }
        visit::visit_type_path(self, path);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check_name(&item.ident);
        visit::visit_item_struct(self, item);
    }
}

impl Reader<'_> {
    fn check_name(&mut self, name: &syn::Ident) {
        const PRELUDE: [&str; 8] = ["Into", "From", "Iterator", "Default", "Clone", "Drop", "Fn", "ToString"];
        if PRELUDE.iter().any(|taken| name == taken) {
            self.note(name, "a type of that name hides one of the prelude");
        }
    }
}

fn is_bool(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Lit(literal) => matches!(literal.lit, syn::Lit::Bool(_)),
        syn::Pat::Guard(guarded) => is_bool(&guarded.pat),
        _ => false,
    }
}

/// Returns the type inside `Option<…>`.
fn inner_option(path: &syn::TypePath) -> Option<&syn::TypePath> {
    let last = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        syn::GenericArgument::Type(syn::Type::Path(inner)) => Some(inner),
        _ => None,
    }
}
