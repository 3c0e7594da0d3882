//! GRUB's configuration.
//!
//! Words pass through two programs before Takt reads them. GRUB's shell would take `;`, `$`, quotes and more for itself: so
//! each word is quoted. Its `multiboot2` then puts backslashes in front of quotes and backslashes: Takt takes these away
//! (`board::loader`).

use super::IMAGE;

/// Seconds in which Esc brings up GRUB's menu, where `e` changes the command line. It is not drawn before: a firmware may
/// redirect the screen to the serial port, where frames are what is expected.
const TIMEOUT_S: u32 = 1;

/// GRUB's modules that are put on a medium, with what they need: what boots, what sets a screen, and the kinds of partition
/// tables that GRUB's own start looks for under UEFI.
pub(super) const MODULES: &str = "multiboot2 normal iso9660 all_video test part_acorn part_amiga part_apple part_bsd \
                                  part_dfly part_dvh part_gpt part_msdos part_plan part_sun part_sunpc";

/// The text of `grub.cfg` that boots the image with this command line.
///
/// GRUB sets a screen to be drawn on, as the image's header asks. Under BIOS it is told to leave EGA's text, which is a hundredth
/// of the bytes.
#[must_use]
pub fn config(words: &str) -> String {
    let quoted: Vec<_> = words.split_whitespace().map(quote).collect();
    format!(
        "set timeout={TIMEOUT_S}\n\
         set timeout_style=hidden\n\
         insmod all_video\n\
         menuentry Takt {{\n\
         \x20 multiboot2 /{IMAGE} {}\n\
         \x20 if [ $grub_platform = pc ]; then set gfxpayload=text; fi\n\
         }}\n",
        quoted.join(" ")
    )
}

/// A word that GRUB's shell takes as it is.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The words of a line as GRUB's shell sees them: quotes keep everything, a backslash the next character.
    fn parse(line: &str) -> Vec<String> {
        let (mut words, mut word) = (Vec::new(), None::<String>);
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            match c {
                '\'' => {
                    let inside: String = chars.by_ref().take_while(|c| *c != '\'').collect();
                    word.get_or_insert_default().push_str(&inside);
                }
                '\\' => word.get_or_insert_default().extend(chars.next()),
                ' ' => words.extend(word.take()),
                '/' | '=' | '0'..='9' | 'a'..='z' | 'A'..='Z' => {
                    word.get_or_insert_default().push(c);
                }
                _ => panic!("GRUB would take {c:?} for itself in {line}"),
            }
        }
        words.extend(word);
        words
    }

    proptest! {
        #[test]
        fn words_get_through_grubs_shell(words in prop::collection::vec(r#"[!-~\u{e9}]{1,12}"#, 0..5)) {
            let config = config(&words.join(" "));
            let line = config.lines().find_map(|line| line.strip_prefix("  multiboot2 ")).unwrap();
            let parsed = parse(line);
            prop_assert_eq!(&parsed[0], "/boot/takt");
            prop_assert_eq!(&parsed[1..], &words);
        }
    }
}
