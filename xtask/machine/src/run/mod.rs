//! One run: from the flags to the run folder.
//!
//! | module | content |
//! |---|---|
//! | [`boot`](mod@boot) | boots an image that measures nothing |
//! | [`config`] | what is run |
//! | [`execute`](mod@execute) | boots a machine and sees it through to the run folder |
//! | [`monitor`], [`signals`], [`live`], [`lines`] | watching it |
//! | [`presence`] | by what others find it |
//! | [`hits`] | what is done at a threshold behind which it goes on |
//! | [`demux`] | what it sent |
//! | [`follow`] | the same while it runs |
//! | [`collect`], [`conclude`] | what it measured, and what comes of it |
//! | [`last_words`], [`places`] | what was last heard of it, and where it stood, if it did not end well |
//! | [`folder`], [`provenance`] | what is kept |
//! | [`once`] | boots of which nothing is kept |
//! | [`probe`] | a boot that only shows that booting works |

pub mod boot;
pub mod collect;
pub mod conclude;
pub mod config;
pub mod console;
pub mod demux;
pub mod execute;
pub mod folder;
pub mod follow;
pub mod hits;
pub mod last_words;
pub mod lines;
pub mod live;
pub mod monitor;
pub mod once;
pub mod places;
pub mod presence;
pub mod probe;
pub mod provenance;
pub mod recorded;
pub mod signals;

pub use config::RunConfig;
pub use execute::{Finished, Plan};
pub use folder::RunFolder;
