//! The modules of a crate, as its files declare them, every path that their code names, and the
//! parameters that are tuples.
//!
//! Paths and parameters leave out code that is compiled only for tests, but its files count as
//! reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItem, Item, ItemUse, Lit, Meta, Signature, UseTree, Visibility};

use crate::parameters::TupleParameter;

/// The segments of a path, `crate`, `self` and `super` included.
pub type Segments = Vec<String>;

/// Index of a module in [`Modules::all`].
pub type ModuleId = usize;

#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    pub root: ModuleId,
    pub parent: Option<ModuleId>,
    pub children: BTreeMap<String, ModuleId>,
    /// Names that it defines itself.
    pub items: BTreeSet<String>,
    /// Names that it imports, and from where.
    pub imports: BTreeMap<String, Segments>,
    /// Modules or enums that it imports with `*`.
    pub globs: Vec<Segments>,
    /// Names in its code: imports for its own use, and paths. A name that it only passes on (`pub
    /// use`) is not among them.
    pub named: BTreeSet<Segments>,
    pub tuple_parameters: Vec<TupleParameter>,
}

/// All modules below one or more roots (`lib.rs`, `main.rs`).
#[derive(Default)]
pub struct Modules {
    pub all: Vec<Module>,
    /// Every file read, those of tests included.
    pub files: BTreeSet<PathBuf>,
}

impl Modules {
    /// Reads the library and the programs of the crate in `folder`.
    pub fn of_crate(folder: &Path) -> Result<Modules> {
        let mut modules = Modules::default();
        for root in roots(&folder.join("src")) {
            modules.add_root(&root)?;
        }
        Ok(modules)
    }

    /// Reads `file` as the root of a crate, and all modules below it.
    pub fn add_root(&mut self, file: &Path) -> Result<()> {
        let module = Module {
            root: self.all.len(),
            ..Module::default()
        };
        self.read_file(module, file, folder_of(file), true)?;
        Ok(())
    }

    /// Reads `file` as `module`. `folder` holds the files of its modules.
    fn read_file(&mut self, module: Module, file: &Path, folder: &Path, is_counted: bool) -> Result<ModuleId> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        self.files.insert(file.to_owned());
        let module = Module {
            file: file.to_owned(),
            ..module
        };
        self.read_items(module, &parsed.items, folder, is_counted)
    }

    fn read_items(&mut self, module: Module, items: &[Item], folder: &Path, is_counted: bool) -> Result<ModuleId> {
        let id = self.all.len();
        self.all.push(module);
        for item in items {
            let is_counted = is_counted && !is_for_tests(attributes(item));
            match item {
                Item::Mod(declared) => self.read_module(id, declared, folder, is_counted)?,
                _ if is_counted => self.all[id].read_item(item),
                _ => {}
            }
        }
        Ok(id)
    }

    fn read_module(
        &mut self,
        parent: ModuleId,
        declared: &syn::ItemMod,
        folder: &Path,
        is_counted: bool,
    ) -> Result<()> {
        let name = declared.ident.to_string();
        let module = Module {
            file: self.all[parent].file.clone(),
            root: self.all[parent].root,
            parent: Some(parent),
            ..Module::default()
        };
        let id = match &declared.content {
            Some((_, items)) => self.read_items(module, items, &folder.join(&name), is_counted)?,
            None => {
                let (file, below) = file_of(&module.file, folder, &name, &declared.attrs)?;
                self.read_file(module, &file, &below, is_counted)?
            }
        };
        if is_counted {
            self.all[parent].children.insert(name, id);
        }
        Ok(())
    }
}

fn roots(source: &Path) -> Vec<PathBuf> {
    let mut roots = vec![source.join("lib.rs"), source.join("main.rs")];
    let programs = std::fs::read_dir(source.join("bin")).into_iter().flatten().flatten();
    roots.extend(programs.map(|entry| entry.path()));
    roots.retain(|file| file.is_file());
    roots
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// The file of a module that `declaring` declares, and the folder of that module's own modules.
fn file_of(declaring: &Path, folder: &Path, name: &str, attributes: &[Attribute]) -> Result<(PathBuf, PathBuf)> {
    if let Some(named) = attributes.iter().find_map(path_attribute) {
        let file = folder_of(declaring).join(named);
        let below = folder_of(&file).to_owned();
        return Ok((file, below));
    }
    let beside = folder.join(format!("{name}.rs"));
    let inside = folder.join(name).join("mod.rs");
    match [beside, inside].into_iter().find(|file| file.exists()) {
        Some(file) => Ok((file, folder.join(name))),
        None => bail!("{} declares `mod {name}`, which has no file", declaring.display()),
    }
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    match &pair.value {
        Expr::Lit(value) if pair.path.is_ident("path") => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// True for `#[test]` and `#[cfg(test)]`, with further conditions too.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let tokens = list.tokens.to_string().replace(' ', "");
            tokens == "test" || tokens.starts_with("all(test,")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

impl Module {
    fn read_item(&mut self, item: &Item) {
        match item {
            Item::Use(import) => self.read_import(import),
            _ => {
                self.items.extend(name(item));
                self.visit_item(item);
            }
        }
    }

    fn read_import(&mut self, import: &ItemUse) {
        let is_for_itself = matches!(import.vis, Visibility::Inherited);
        for leaf in leaves(&import.tree) {
            if is_for_itself {
                self.named.insert(leaf.path.clone());
            }
            match leaf.name {
                Some(name) => drop(self.imports.insert(name, leaf.path)),
                None => self.globs.push(leaf.path),
            }
        }
    }
}

/// One imported name, or every name of `path`.
struct Leaf {
    path: Segments,
    name: Option<String>,
}

fn leaves(tree: &UseTree) -> Vec<Leaf> {
    fn walk(tree: &UseTree, before: &[String], leaves: &mut Vec<Leaf>) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || path.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        match tree {
            UseTree::Path(step) => walk(&step.tree, &with(&step.ident), leaves),
            UseTree::Group(group) => group.items.iter().for_each(|tree| walk(tree, before, leaves)),
            UseTree::Name(leaf) => {
                let path = with(&leaf.ident);
                let name = path.last().cloned();
                leaves.push(Leaf { path, name });
            }
            UseTree::Rename(leaf) => leaves.push(Leaf {
                path: with(&leaf.ident),
                name: Some(leaf.rename.to_string()),
            }),
            UseTree::Glob(_) => leaves.push(Leaf {
                path: before.to_vec(),
                name: None,
            }),
        }
    }
    let mut leaves = Vec::new();
    walk(tree, &[], &mut leaves);
    leaves
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let is_test = matches!(item, ImplItem::Fn(method) if is_for_tests(&method.attrs));
        if !is_test {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.tuple_parameters.extend(TupleParameter::all(signature));
        visit::visit_signature(self, signature);
    }

    /// An import inside a function.
    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        self.named
            .extend(leaves(&import.tree).into_iter().map(|leaf| leaf.path));
    }

    /// A path in a string, as in `#[serde(with = "crate::name")]`, is called by what the macro
    /// makes.
    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        match &attribute.meta {
            Meta::List(list) if !list.path.is_ident("doc") => paths_in_strings(list.tokens.clone(), &mut self.named),
            _ => {}
        }
    }

    /// A visibility, such as `pub(crate)`, takes no name from there.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.named
                .insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        if called.path.segments.len() > 1 {
            self.visit_path(&called.path);
        }
        paths_in(called.tokens.clone(), &mut self.named);
    }
}

/// Paths of two segments or more that are written as strings among the tokens of an attribute.
fn paths_in_strings(tokens: TokenStream, paths: &mut BTreeSet<Segments>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => paths_in_strings(group.stream(), paths),
            TokenTree::Literal(literal) => {
                let path = syn::parse_str::<syn::LitStr>(&literal.to_string()).ok();
                if let Some(path) = path.and_then(|text| text.parse::<syn::Path>().ok())
                    && path.segments.len() > 1
                {
                    paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
                }
            }
            _ => {}
        }
    }
}

/// Paths of two or more segments among the tokens of a macro call, which only the macro can parse.
fn paths_in(tokens: TokenStream, paths: &mut BTreeSet<Segments>) {
    let mut path: Segments = Vec::new();
    let mut colons = 0;
    let mut end = |path: &mut Segments| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            paths.insert(path);
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| paths_in(group, paths));
}
