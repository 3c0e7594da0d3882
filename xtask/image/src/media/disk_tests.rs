//! Disks of a sysfs that is a folder of ours.

use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// Where a stick and a fixed disk are in sysfs.
const STICK: &str = "devices/pci0000:00/usb1/1-2/block/sdb";
const FIXED: &str = "devices/pci0000:00/ata1/host0/block/sda";

/// A machine with a stick `sdb` of 4 GiB with two partitions, and a fixed disk `sda` with the system.
struct Machine {
    dir: TempDir,
    system: System,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let system = System {
            devices: at("class/block"),
            mounts: at("mountinfo"),
            swaps: at("swaps"),
        };
        let machine = Self { dir, system };
        machine.write(
            "mountinfo",
            "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n",
        );
        machine.write(
            "swaps",
            "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
        );
        for (disk, place, number, removable, sectors) in [
            ("sda", FIXED, 0, 0, 1 << 30),
            ("sdb", STICK, 16, 1, 8 << 20),
        ] {
            let of = |file: &str| format!("{place}/{file}");
            machine.write(&of("size"), &format!("{sectors}\n"));
            machine.write(&of("removable"), &format!("{removable}\n"));
            machine.write(&of("ro"), "0\n");
            machine.write(&of("dev"), &format!("8:{number}\n"));
            machine.write(&of("device/vendor"), "Acme    \n");
            machine.write(&of("device/model"), "Stick  3.0      \n");
            for part in [1, 2] {
                machine.write(
                    &of(&format!("{disk}{part}/partition")),
                    &format!("{part}\n"),
                );
                let number = number + part;
                machine.write(&of(&format!("{disk}{part}/dev")), &format!("8:{number}\n"));
                machine.link(&format!("{disk}{part}"), &format!("{place}/{disk}{part}"));
            }
            machine.link(disk, place);
        }
        machine
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.dir.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// The device file, and where its class has it.
    fn link(&self, name: &str, to: &str) {
        self.write(&format!("dev/{name}"), "");
        fs::create_dir_all(&self.system.devices).unwrap();
        symlink(self.dir.path().join(to), self.system.devices.join(name)).unwrap();
    }

    fn look(&self, name: &str) -> Result<Disk> {
        Disk::look(&self.dir.path().join("dev").join(name), &self.system)
    }

    /// Why nothing may be written to a disk.
    fn refuses(&self, name: &str, len: u64) -> String {
        let looked = self.look(name).and_then(|disk| disk.check(len));
        format!("{:#}", looked.unwrap_err())
    }
}

#[test]
fn a_stick_is_described_and_may_be_written() {
    let machine = Machine::new();
    machine.write(&format!("{STICK}/sdb1/size"), "2097152\n");
    let told = "DEVTYPE=partition\nPARTNAME=EFI system\n";
    machine.write(&format!("{STICK}/sdb1/uevent"), told);
    let stick = machine.look("sdb").unwrap();
    stick.check(5 << 20).unwrap();
    let text = stick.describe();
    for line in [
        "model      Acme Stick 3.0\n",
        "size       4.3 GB\n",
        "bus        USB\n",
        "removable  yes\n",
        "partitions sdb1 1.1 GB \"EFI system\", sdb2 0.0 GB\n",
        "in use     no\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // By another name, as those of /dev/disk/by-id.
    let other = machine.dir.path().join("by-id");
    symlink(machine.dir.path().join("dev/sdb"), &other).unwrap();
    assert_eq!(Disk::look(&other, &machine.system).unwrap(), stick);
}

/// A USB disk in a case is not removable, by its own words.
#[test]
fn a_disk_behind_usb_may_be_written() {
    let machine = Machine::new();
    let at = "devices/pci0000:00/usb2/2-1/block/sdc";
    for (file, text) in [("size", "8388608"), ("removable", "0"), ("dev", "8:32")] {
        machine.write(&format!("{at}/{file}"), text);
    }
    machine.link("sdc", at);
    let disk = machine.look("sdc").unwrap();
    disk.check(5 << 20).unwrap();
    assert!(disk.describe().contains("removable  no, but behind USB\n"));
    machine.write("mountinfo", "22 1 8:32 / / rw - ext4 /dev/sdc rw\n");
    let why = machine.refuses("sdc", 1);
    assert!(why.contains("is the system's own disk"), "{why}");
    // A folder whose name only begins so is no bus.
    let at = "devices/usb-like/block/sdd";
    machine.write(&format!("{at}/removable"), "0");
    machine.link("sdd", at);
    assert!(machine.refuses("sdd", 0).contains("is a fixed disk"));
}

/// A SATA disk inside, at a port for hot plugging, says that it may be taken out; so do cards, and those are written.
#[test]
fn what_says_it_is_removable_is_written_on_usb_and_as_a_card_only() {
    let machine = Machine::new();
    for (name, place, refused) in [
        ("sde", "devices/pci0000:00/ata2/host1/block", Some("SATA")),
        ("nvme0n1", "devices/pci0000:00/nvme/nvme0", Some("NVMe")),
        ("sdf", "devices/pci0000:00/host9/block", Some("none of")),
        ("mmcblk0", "devices/pci0000:00/mmc_host/mmc0/block", None),
        ("sdg", "devices/pci0000:00/usb3/3-1/ata1/block", None),
    ] {
        let at = format!("{place}/{name}");
        machine.write(&format!("{at}/size"), "8388608");
        machine.write(&format!("{at}/removable"), "1");
        machine.link(name, &at);
        let checked = machine.look(name).unwrap().check(5 << 20);
        match refused {
            Some(bus) => {
                let why = format!("{:#}", checked.unwrap_err());
                assert!(why.contains(&format!("its bus is {bus}")), "{why}");
            }
            None => checked.unwrap(),
        }
    }
    // Memory that is soldered in is no card.
    let removable = "devices/pci0000:00/mmc_host/mmc0/block/mmcblk0/removable";
    machine.write(removable, "0");
    assert!(machine.refuses("mmcblk0", 0).contains("is a fixed disk"));
}

#[test]
fn what_is_mounted_is_refused() {
    let machine = Machine::new();
    let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                  30 22 8:18 / /media/my\\040stick rw - vfat /dev/sdb2 rw\n";
    machine.write("mountinfo", mounts);
    let why = machine.refuses("sdb", 1);
    assert!(
        why.contains("/dev/sdb2 is mounted on /media/my stick"),
        "{why}"
    );
    assert!(why.contains("sudo umount /dev/sdb2"), "{why}");
    // btrfs has device numbers of its own; then the source tells.
    machine.write("mountinfo", "30 22 0:42 / /x rw - btrfs /dev/sdb1 rw\n");
    assert!(
        machine
            .refuses("sdb", 1)
            .contains("/dev/sdb1 is mounted on /x")
    );
}

#[test]
fn the_systems_disk_and_fixed_ones_are_refused() {
    let machine = Machine::new();
    let why = machine.refuses("sda", 1);
    assert!(
        why.contains("the system's own disk: /dev/sda1 is mounted on /"),
        "{why}"
    );
    machine.write("mountinfo", "");
    assert!(
        machine
            .refuses("sda", 1)
            .contains("/dev/sda2 is swapped to")
    );
    machine.write("swaps", "");
    machine.write(&format!("{FIXED}/sda1/holders/dm-0/dev"), "");
    assert!(
        machine
            .refuses("sda", 1)
            .contains("/dev/sda1 is part of dm-0")
    );
    fs::remove_dir_all(machine.dir.path().join(FIXED).join("sda1/holders")).unwrap();
    assert!(
        machine
            .refuses("sda", 1)
            .contains("(Acme Stick 3.0) is a fixed disk")
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let machine = Machine::new();
    assert!(
        machine
            .refuses("sdb", (4 << 30) + 1)
            .contains("4294967297 are needed")
    );
    machine.write(&format!("{STICK}/ro"), "1\n");
    assert!(machine.refuses("sdb", 1).contains("write-protected"));
    let part = machine.refuses("sdb1", 1);
    assert!(
        part.contains("is a part of a disk") && part.contains("dev/sdb"),
        "{part}"
    );
    assert!(machine.refuses("sdc", 1).contains("there is no device"));
    machine.write("dev/plain", "");
    assert!(machine.refuses("plain", 1).contains("is no disk"));
    // Nobody knows what is mounted: nothing is written.
    fs::remove_file(&machine.system.mounts).unwrap();
    assert!(
        machine
            .refuses("sdb", 1)
            .contains("cannot see what is in use")
    );
}
