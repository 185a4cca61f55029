# Makes a file system and plays the script on it; the server records what arrives at the disk.
set -e
format
sync
start
control "mark 0"
oracle-manifest play /mnt /job/script /dev/vdb
umount /mnt
control done
