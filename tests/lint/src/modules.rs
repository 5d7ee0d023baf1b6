//! The modules of a crate, file by file, and which file a path leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The path of a module inside its crate.
pub type ModulePath = Vec<String>;

/// One module that has a file of its own.
#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    items: BTreeSet<String>,
    /// Names that `use` brings in, by the full path that they stand for.
    imports: BTreeMap<String, ModulePath>,
    /// Modules of which everything is re-exported.
    globs: Vec<ModulePath>,
    /// Every path from here that begins with `crate`, `super` or `self`, or with a name brought in.
    paths: BTreeSet<ModulePath>,
}

/// The modules of one crate.
pub struct Crate(BTreeMap<ModulePath, Module>);

impl Crate {
    /// Reads the files below `source`, which end in `.rs`. Test modules are left out.
    pub fn new(source: &Path, files: &[(PathBuf, syn::File)]) -> Self {
        let mut modules = BTreeMap::new();
        for (path, file) in files {
            let Ok(inner) = path.strip_prefix(source) else { continue };
            let Some(module) = module_path(inner) else { continue };
            if module.iter().any(|name| name.contains("test")) {
                continue;
            }
            let mut reader =
                Reader { own: module.clone(), module: Module { file: path.clone(), ..Module::default() } };
            reader.visit_file(file);
            modules.insert(module, reader.module);
        }
        Self(modules)
    }

    /// Returns every pair of files of which the first takes something from the second.
    ///
    /// A module that takes what a module around it defines is left out: the two are one unit, split by length.
    pub fn arrows(&self) -> BTreeSet<(PathBuf, PathBuf)> {
        let mut arrows = BTreeSet::new();
        for (own, module) in &self.0 {
            let around: Vec<_> = (0..own.len()).filter_map(|depth| self.0.get(&own[..depth])).collect();
            for path in &module.paths {
                let Some(to) = self.file_of(path, 0) else { continue };
                if *to != module.file && around.iter().all(|outer| outer.file != *to) {
                    arrows.insert((module.file.clone(), to.clone()));
                }
            }
        }
        arrows
    }

    /// Follows a path to the file that defines its item.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&PathBuf> {
        if depth > 8 {
            return None;
        }
        let split = (0..=path.len()).rev().find(|at| self.0.contains_key(&path[..*at]))?;
        let module = &self.0[&path[..split]];
        let Some(item) = path.get(split) else {
            return Some(&module.file);
        };
        if module.items.contains(item) {
            return Some(&module.file);
        }
        if let Some(target) = module.imports.get(item) {
            let rest = &path[split + 1..];
            return self.file_of(&[target, rest].concat(), depth + 1);
        }
        module.globs.iter().find_map(|glob| {
            let target = [glob, &path[split..]].concat();
            let found = self.0.get(glob)?;
            let has_item = found.items.contains(item) || found.imports.contains_key(item);
            has_item.then(|| self.file_of(&target, depth + 1)).flatten()
        })
    }
}

/// Returns the module that a file inside `src` holds; binaries have none.
fn module_path(inner: &Path) -> Option<ModulePath> {
    let mut parts: Vec<String> = inner.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let last = parts.pop()?;
    let stem = last.strip_suffix(".rs")?;
    match stem {
        "main" => return None,
        "lib" | "mod" => {}
        name => parts.push(name.to_owned()),
    }
    (parts.first().map(String::as_str) != Some("bin")).then_some(parts)
}

struct Reader {
    own: ModulePath,
    module: Module,
}

impl Reader {
    /// Returns the full path inside the crate; `None` for what comes from other crates.
    fn resolve(&self, path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.own, rest].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let parent = &self.own[..self.own.len().checked_sub(ups)?];
                Some([parent, &path[ups..]].concat())
            }
            name => self.module.imports.get(name).map(|target| [target, rest].concat()),
        }
    }

    fn import(&mut self, tree: &syn::UseTree, prefix: &mut ModulePath) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix);
                prefix.pop();
            }
            syn::UseTree::Name(name) => self.bring_in(name.ident.to_string(), name.ident.to_string(), prefix),
            syn::UseTree::Rename(name) => {
                self.bring_in(name.ident.to_string(), name.rename.to_string(), prefix)
            }
            syn::UseTree::Glob(_) => {
                if let Some(target) = self.resolve(prefix).or_else(|| self.child(prefix)) {
                    self.module.paths.insert(target.clone());
                    self.module.globs.push(target);
                }
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, prefix)),
        }
    }

    fn bring_in(&mut self, name: String, visible: String, prefix: &[String]) {
        let mut full = prefix.to_vec();
        if name != "self" {
            full.push(name);
        }
        let visible = if visible == "self" { full.last().cloned().unwrap_or_default() } else { visible };
        if let Some(target) = self.resolve(&full).or_else(|| self.child(&full)) {
            self.module.paths.insert(target.clone());
            self.module.imports.insert(visible, target);
        }
    }

    /// Returns the path where it begins with a module declared here.
    fn child(&self, path: &[String]) -> Option<ModulePath> {
        let first = path.first()?;
        self.module.items.contains(&format!("mod {first}")).then(|| [&self.own, path].concat())
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_file(&mut self, file: &'ast syn::File) {
        for item in &file.items {
            if let syn::Item::Mod(module) = item {
                self.module.items.insert(format!("mod {}", module.ident));
            }
        }
        for item in &file.items {
            if let syn::Item::Use(found) = item {
                // What a module passes on, it does not take for itself.
                let before = self.module.paths.clone();
                self.import(&found.tree, &mut Vec::new());
                if !matches!(found.vis, syn::Visibility::Inherited) {
                    self.module.paths = before;
                }
            }
        }
        for item in file.items.iter().filter(|item| !is_for_tests(item)) {
            if let Some(name) = name_of(item) {
                self.module.items.insert(name);
            }
            self.visit_item(item);
        }
    }

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none()
            && let Some(full) = self.resolve(&parts)
        {
            self.module.paths.insert(full);
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(item: &syn::Item) -> bool {
    let syn::Item::Mod(module) = item else { return false };
    module.ident.to_string().contains("test")
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}
