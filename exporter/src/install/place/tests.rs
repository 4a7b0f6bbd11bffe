use bluefin_common::digest::Digest;
use bluefin_miopen::db::kernel_db::KernelDbWriter;
use rusqlite::Connection;

use super::steps::{DONE, PLAN};
use super::*;

struct Here {
    folder: tempfile::TempDir,
    sources: tempfile::TempDir,
}

impl Here {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), sources: tempfile::tempdir().unwrap() }
    }

    fn items(&self, files: &[(&str, &str)]) -> Vec<Item> {
        let item = |(name, text): &(&str, &str)| {
            let source = self.sources.path().join(format!("{name}.{}", Digest::of(text.as_bytes())));
            std::fs::write(&source, text).unwrap();
            Item {
                folder: self.folder.path().to_path_buf(),
                name: (*name).to_string(),
                source,
                present: None,
                merged: None,
            }
        };
        files.iter().map(item).collect()
    }

    fn install(&self, files: &[(&str, &str)]) -> Installed {
        install(self.folder.path(), &self.items(files)).unwrap()
    }

    fn files(&self) -> Vec<(String, String)> {
        let entries = self.folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| path.is_file())
            .map(|path| (path.file_name().unwrap().to_str().unwrap().into(), std::fs::read_to_string(&path).unwrap()))
            .collect();
        files.sort();
        files
    }
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect()
}

#[test]
fn steps_are_taken_and_taken_back() {
    let here = Here::new();
    std::fs::write(here.folder.path().join("a"), "shipped").unwrap();
    let first = here.install(&[("a", "1"), ("b", "1")]);
    let actions: Vec<Action> = first.files.iter().map(|file| file.action).collect();
    assert_eq!((first.step, actions), (Some(1), vec![Action::Replaced, Action::New]));
    assert_eq!(here.install(&[("a", "1"), ("b", "1")]).step, None, "nothing to do");
    let second = here.install(&[("a", "1"), ("b", "2")]);
    assert_eq!((second.step, second.files[0].action), (Some(2), Action::Same));
    assert_eq!(here.files(), owned(&[("a", "1"), ("b", "2")]));
    undo(&[here.folder.path()]).unwrap();
    assert_eq!(here.files(), owned(&[("a", "1"), ("b", "1")]));
    undo(&[here.folder.path()]).unwrap();
    assert_eq!(here.files(), owned(&[("a", "shipped")]));
    assert!(undo(&[here.folder.path()]).unwrap_err().to_string().contains("nothing was installed"));
    assert_eq!(here.install(&[("a", "3")]).step, Some(3));
}

#[test]
fn what_was_changed_since_is_not_thrown_away() {
    let here = Here::new();
    here.install(&[("a", "1"), ("b", "1")]);
    std::fs::write(here.folder.path().join("b"), "a package's").unwrap();
    let error = undo(&[here.folder.path()]).unwrap_err().to_string();
    assert!(error.ends_with("b: has changed since it was installed; put it aside first"), "{error}");
    assert_eq!(here.files(), owned(&[("a", "1"), ("b", "a package's")]), "nothing was touched");
}

#[test]
fn a_step_that_was_begun_is_finished_by_the_next_call() {
    let here = Here::new();
    here.install(&[("a", "1"), ("b", "1")]);
    here.install(&[("a", "2"), ("b", "2")]);
    // As if it had died between the two files.
    let place = here.folder.path().join(".bluefin/000002");
    std::fs::remove_file(place.join(DONE)).unwrap();
    std::fs::rename(here.folder.path().join("b"), place.join("new/b")).unwrap();
    std::fs::copy(place.join("old/b"), here.folder.path().join("b")).unwrap();
    assert_eq!(here.files(), owned(&[("a", "2"), ("b", "1")]));
    assert_eq!(unfinished(here.folder.path()).unwrap(), [Unfinished { step: 2, files: vec!["b".into()] }]);
    // And another had died before it had a plan.
    std::fs::create_dir_all(here.folder.path().join(".bluefin/000003/new")).unwrap();
    assert_eq!(here.install(&[("a", "2"), ("b", "2")]).step, None);
    assert_eq!(here.files(), owned(&[("a", "2"), ("b", "2")]));
    assert_eq!(unfinished(here.folder.path()).unwrap(), []);
    assert!(!here.folder.path().join(".bluefin/000003").exists());
    undo(&[here.folder.path()]).unwrap();
    assert_eq!(here.files(), owned(&[("a", "1"), ("b", "1")]));
}

#[test]
fn a_database_that_is_open_is_left_alone() {
    let here = Here::new();
    here.install(&[("a.udb", "1")]);
    std::fs::write(here.folder.path().join("a.udb-wal"), "log").unwrap();
    let error = install(here.folder.path(), &here.items(&[("a.udb", "2")])).unwrap_err().to_string();
    assert!(error.contains("write-ahead log"), "{error}");
    assert!(undo(&[here.folder.path()]).is_err());
}

#[test]
fn a_plan_that_leads_elsewhere_is_refused() {
    let here = Here::new();
    here.install(&[("a", "1")]);
    let plan = here.folder.path().join(".bluefin/000001").join(PLAN);
    let text = std::fs::read_to_string(&plan).unwrap();
    for (changed, reason) in [
        (text.replace("\"a\"", "\"../a\""), "expected the name of a file"),
        (text.replace("\"format\": 1", "\"format\": 2"), "found format 2"),
        ("{".to_string(), "EOF"),
    ] {
        std::fs::write(&plan, changed).unwrap();
        let error = undo(&[here.folder.path()]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// MIOpen has a user's kernel db keep a log as soon as it opens it. That alone is no change; what it adds is one, and then nothing
/// is taken back, in no folder.
#[test]
fn several_folders_are_taken_back_together_or_not_at_all() {
    let (finds, kernels) = (Here::new(), Here::new());
    let source = kernels.sources.path().join("kernels");
    std::fs::write(&source, "").unwrap();
    KernelDbWriter::create(&source).unwrap().finish().unwrap();
    let (name, folder) = ("gfx90a68.ukdb".to_string(), kernels.folder.path().to_path_buf());
    let path = folder.join(&name);
    let item = Item { folder: folder.clone(), name, source, present: None, merged: None };
    let both = [finds.folder.path(), &folder];
    let opened = |sql: &str| {
        let connection = Connection::open(&path).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
    };
    let install_both = || {
        finds.install(&[("a", "1")]);
        install(&folder, std::slice::from_ref(&item)).unwrap();
    };
    install_both();
    opened("");
    assert_eq!(std::fs::read(&path).unwrap()[18..20], [2, 2]);
    assert_eq!(undo(&both).unwrap().len(), 2);
    assert_eq!((finds.files(), path.exists()), (vec![], false));

    install_both();
    opened("INSERT INTO kern_db VALUES(1, 'a.s.o', '', x'00', '', 0)");
    let error = undo(&both).unwrap_err().to_string();
    assert!(error.ends_with("gfx90a68.ukdb: has changed since it was installed; put it aside first"), "{error}");
    assert_eq!(finds.files(), owned(&[("a", "1")]), "taken back in part");
}

/// What came in between is not lost to a merge that did not see it.
#[test]
fn what_was_merged_is_still_what_is_there() {
    let here = Here::new();
    here.install(&[("a", "1")]);
    let mut items = here.items(&[("a", "2")]);
    items[0].merged = Some(Merged::default());
    items[0].present = Some(Digest::of(b"another"));
    let error = install(here.folder.path(), &items).unwrap_err().to_string();
    assert!(error.contains("was changed while it was read"), "{error}");
    items[0].present = Some(Digest::of(b"1"));
    assert_eq!(install(here.folder.path(), &items).unwrap().files[0].action, Action::Merged);
}
