//! [`Named`]: values of a closed set that have a name, spelled once for target and host.
//!
//! The target parses and prints the name; the host also shows what it is about, in its help.

/// A value of a closed set, with a name.
pub trait Named: Copy + PartialEq + 'static {
    /// All of them, in the order of their numbers.
    const ALL: &'static [Self];

    /// Its name, as it is written.
    fn name(self) -> &'static str;

    /// What it is, in one line, for people.
    fn about(self) -> &'static str;

    /// The one of that name.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.name() == name)
    }

    /// The one of that number, counted from 0.
    fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.get(raw as usize).copied()
    }
}

/// Declares an enum whose variants have names: `/// What it is. Variant = "name",` in the order of their numbers, which
/// are those of a `u32` from 0 up.
///
/// The first line of a variant's documentation is its [`Named::about`].
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $(#[doc = $about:literal] $(#[$vmeta:meta])* $Variant:ident = $name:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        $vis enum $Name {
            $(#[doc = $about] $(#[$vmeta])* $Variant,)+
        }

        impl $Name {
            /// Its name, as it is written.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                }
            }
        }

        impl $crate::named::Named for $Name {
            const ALL: &'static [Self] = &[$(Self::$Variant),+];

            fn name(self) -> &'static str {
                self.name()
            }

            fn about(self) -> &'static str {
                match self {
                    $(Self::$Variant => $about.trim_ascii(),)+
                }
            }
        }

        impl $crate::__core::fmt::Display for $Name {
            fn fmt(&self, f: &mut $crate::__core::fmt::Formatter<'_>) -> $crate::__core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::Named;

    named! {
        /// What is eaten.
        pub(super) enum Fruit {
            /// Grows on trees.
            Apple = "apple",
            /// Grows on bushes.
            /// In summer.
            Berry = "a berry",
        }
    }

    #[test]
    fn names_and_numbers_lead_to_the_value() {
        assert_eq!(Fruit::from_name("a berry"), Some(Fruit::Berry));
        assert_eq!(Fruit::from_name("Berry"), None);
        assert_eq!(Fruit::from_raw(0), Some(Fruit::Apple));
        assert_eq!(Fruit::from_raw(2), None);
        assert_eq!(Fruit::Berry.about(), "Grows on bushes.");
        assert_eq!(std::format!("{:>8}", Fruit::Apple), "   apple");
    }
}
