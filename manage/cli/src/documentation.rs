//! What is made from the command line's own definition: manual pages and completion scripts.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::output::print_line;

/// Writes one manual page a command into `dir`.
pub fn write_manual(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("folder {}: it cannot be created", dir.display()))?;
    let command = Arguments::command();
    clap_mangen::generate_to(command, dir).with_context(|| format!("folder {}: it cannot be written to", dir.display()))
}

/// Prints the completion script for `shell`.
pub fn print_completion(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "holdfast", &mut script);
    print_line(String::from_utf8_lossy(&script).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_says_what_its_help_says() {
        let folder = tempfile::tempdir().unwrap();
        write_manual(folder.path()).unwrap();
        let mut command = Arguments::command();
        command.build();
        fn check(command: &clap::Command, name: &str, folder: &Path) {
            let page = std::fs::read_to_string(folder.join(format!("{name}.1")))
                .unwrap_or_else(|_| panic!("no page of {name}"));
            let plain = page.replace("\\*(Aq", "'").replace('\\', "");
            assert!(plain.contains(&command.get_about().unwrap().to_string()), "{name}");
            for argument in command.get_arguments().filter_map(|argument| argument.get_long()) {
                assert!(plain.contains(&format!("--{argument}")), "--{argument} is not in the page of {name}");
            }
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                check(sub, &format!("{name}-{}", sub.get_name()), folder);
            }
        }
        check(&command, "holdfast", folder.path());
    }
}
