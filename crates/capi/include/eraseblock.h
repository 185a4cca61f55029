/* eraseblock: reads, checks and builds flash images (UBI, UBIFS, JFFS2, YAFFS, AXFS, LogFS, SquashFS).
 *
 * Functions that can fail take `eb_error **err`, which may be NULL; on failure they set *err to an object
 * that the caller frees with eb_error_free. On success they leave *err alone. Objects are counted
 * (eb_..._ref, eb_..._unref) and can be used by several threads at once. Text is UTF-8; names and paths
 * are bytes up to a zero byte. Made by cbindgen from crates/capi. */

#ifndef ERASEBLOCK_H
#define ERASEBLOCK_H

#include <stddef.h>
#include <stdint.h>

// Codes of errors. Later versions may add some.
typedef enum {
  // Anything else.
  EB_OTHER = 1,
  // An argument is missing, or arguments contradict each other or the image.
  EB_USAGE = 2,
  // What was asked for is impossible: no such file, a name in use and the like.
  EB_REFUSED = 3,
  // Bytes that are not what the format demands.
  EB_CORRUPTION = 4,
  // The flash or the callback of an eb_io failed to read.
  EB_MEDIA = 5,
  // The image or the flash is full.
  EB_FLASH_FULL = 6,
  // A valid format that is not supported.
  EB_UNSUPPORTED = 7,
  // A disk of this machine is full.
  EB_HOST_FULL = 8,
  // This machine refused an operation on a file.
  EB_HOST = 9,
  // A mistake in the library. The objects of the call can still be freed.
  EB_INTERNAL = 10,
} eb_code;

// Why a function failed. Owned by the caller, who frees it with eb_error_free.
typedef struct eb_error eb_error;

// A regular file, opened to be read.
typedef struct eb_file eb_file;

// A file system, opened to be read. Paths in it are bytes, from its root, with or without a slash at the
// start; symbolic links are followed inside the image.
typedef struct eb_fs eb_fs;

// An opened image. It is only read.
typedef struct eb_image eb_image;

// What is known about an image, instead of what is detected. Set all of it to zero, then struct_size;
// 0 and NULL mean: detected.
typedef struct {
  // sizeof(eb_options).
  size_t struct_size;
  // "ubi", "ubifs", "jffs2", "yaffs", "axfs", "logfs" or "squashfs".
  const char *format;
  // Where the image begins in the file, in bytes.
  uint64_t offset;
  // How long it is, in bytes.
  uint64_t length;
  // Size of an eraseblock in bytes.
  uint32_t peb;
  // Size of a page in bytes.
  uint32_t page;
  // Size of a sub-page in bytes.
  uint32_t subpage;
  // Where the VID header lies in an eraseblock.
  uint32_t vid_offset;
  // Size of a logical eraseblock of a bare UBIFS in bytes.
  uint32_t leb;
  // Number of threads of this image alone; 0 means those that all images share. A forked process
  // has no shared threads: it needs a number here.
  uint32_t threads;
  // Not 0: refuse what Linux would refuse.
  int strict;
} eb_options;

// Something that is wrong with an image, or worth a note. Lives during the callback only.
typedef struct {
  // 0 a note: nothing is wrong. 1 a warning: everything could be delivered. 2 an error: something
  // could not.
  int severity;
  // A stable identifier.
  const char *code;
  // Where it is.
  const char *place;
  // What was found and what was expected.
  const char *message;
} eb_finding;

// Called for each finding, in order. What it returns is ignored unless it is not 0: then no further
// finding is shown.
typedef int (*eb_finding_cb)(void *data, const eb_finding *finding);

// Attributes of an inode.
typedef struct {
  // sizeof(eb_stat_t), set by the caller.
  size_t struct_size;
  // Inode number.
  uint64_t ino;
  // Length in bytes.
  uint64_t size;
  // Seconds of the last access since 1970.
  int64_t atime;
  // Seconds of the last change of content since 1970.
  int64_t mtime;
  // Seconds of the last change of the inode since 1970.
  int64_t ctime;
  // Nanoseconds of the last access.
  uint32_t atime_nsec;
  // Nanoseconds of the last change of content.
  uint32_t mtime_nsec;
  // Nanoseconds of the last change of the inode.
  uint32_t ctime_nsec;
  // Type and permission bits, as in POSIX.
  uint32_t mode;
  // Number of names.
  uint32_t nlink;
  // Owner.
  uint32_t uid;
  // Group.
  uint32_t gid;
  // Device number of a device node.
  uint32_t rdev_major;
  // Device number of a device node.
  uint32_t rdev_minor;
} eb_stat_t;

// An entry of a directory. Lives during the callback only.
typedef struct {
  // Its name, with a zero byte at the end.
  const char *name;
  // Inode number.
  uint64_t ino;
  // Type bits, as in the mode of POSIX.
  uint32_t type_bits;
} eb_dirent;

// Called for each entry. Another result than 0 ends the list.
typedef int (*eb_dirent_cb)(void *data, const eb_dirent *entry);

// Called for each extended attribute. Another result than 0 ends the list.
typedef int (*eb_xattr_cb)(void *data, const char *name, const void *value, size_t length);

// How to extract. Set all of it to zero, then struct_size.
typedef struct {
  // sizeof(eb_extract_options).
  size_t struct_size;
  // Whether files get the owners in the image: 0 if the caller is root, 1 always, 2 never.
  int owners;
  // Not 0: leave out extended attributes.
  int no_xattrs;
  // Not 0: replace files, and accept a folder that is not empty.
  int force;
  // Not 0: write files with zeros in place of unreadable data.
  int keep_damaged;
} eb_extract_options;

// An image that the caller reads: a file in an archive, a download, a flash behind a debugger.
typedef struct {
  // sizeof(eb_io).
  size_t struct_size;
  // Passed to the functions.
  void *data;
  // Fills buffer with the length bytes at offset, all of which lie within size; returns 0, or an
  // errno. Called by several threads at once.
  int (*pread)(void *data, void *buffer, size_t length, uint64_t offset);
  // Length of the image in bytes.
  uint64_t size;
  // Called once, when nothing uses the image any more; may be NULL.
  void (*close)(void *data);
} eb_io;

// A volume of a UBI image. Lives during the callback only.
typedef struct {
  // Its name.
  const char *name;
  // Its number.
  uint32_t id;
  // Not 0: a static volume.
  int is_static;
  // Bytes of content that it can hold; of a static one, that it holds.
  uint64_t size;
} eb_volume;

// Called for each volume, in the order of their numbers. Another result than 0 ends the list.
typedef int (*eb_volume_cb)(void *data, const eb_volume *volume);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as "0.1.0". Lives as long as the program.
const char *eb_version(void);

// Verifies every structure and every byte of an image. `findings` may be NULL. Returns 0 if it is
// consistent, 1 if not, or -1 if it cannot be checked.
//
// # Safety
//
// `path` is a string, `options` NULL or filled, `findings` can be called with `data`, `err` is NULL or
// writable.
int eb_check(const char *path,
             const eb_options *options,
             eb_finding_cb findings,
             void *data,
             eb_error **err);

// Builds the image that a layout file describes. A file at `image` is replaced once the new one is
// complete. Returns 0, or -1 on failure.
//
// # Safety
//
// `layout` and `image` are strings, `err` is NULL or writable.
int eb_build(const char *layout, const char *image, eb_error **err);

// The message: one line, UTF-8; it names place, found and expected. Lives as long as the error.
//
// # Safety
//
// `error` is NULL or an error that was not freed.
const char *eb_error_message(const eb_error *error);

// The next step, or NULL where none is known. Lives as long as the error.
//
// # Safety
//
// `error` is NULL or an error that was not freed.
const char *eb_error_hint(const eb_error *error);

// The code, one of eb_code; 0 for NULL.
//
// # Safety
//
// `error` is NULL or an error that was not freed.
int eb_error_code(const eb_error *error);

// Frees an error. NULL is allowed.
//
// # Safety
//
// `error` is NULL or an error that was not freed.
void eb_error_free(eb_error *error);

// Counts one more user of a file system, and returns it.
//
// # Safety
//
// `fs` is NULL or alive.
eb_fs *eb_fs_ref(eb_fs *fs);

// Counts one user less, and closes the file system after the last.
//
// # Safety
//
// `fs` is NULL or alive.
void eb_fs_unref(eb_fs *fs);

// Shows what was found when the file system was opened, and since then. Returns 0, or -1 on failure.
//
// # Safety
//
// `fs` is alive, `callback` can be called with `data`, `err` is NULL or writable.
int eb_fs_findings(const eb_fs *fs,
                   eb_finding_cb callback,
                   void *data,
                   eb_error **err);

// Fills `out`; a symbolic link at the end of the path is followed. Returns 0, or -1 on failure.
//
// # Safety
//
// `fs` is alive, `path` a string, `out` as long as its struct_size, `err` NULL or writable.
int eb_stat(const eb_fs *fs, const char *path, eb_stat_t *out, eb_error **err);

// As eb_stat, but of the symbolic link itself.
//
// # Safety
//
// As for eb_stat.
int eb_lstat(const eb_fs *fs, const char *path, eb_stat_t *out, eb_error **err);

// Shows the entries of a directory, sorted by name, without `.` and `..`. Returns 0, what the callback
// returned to end the list, or -1 on failure.
//
// # Safety
//
// `fs` is alive, `path` a string, `callback` can be called with `data`, `err` is NULL or writable.
int eb_list(const eb_fs *fs,
            const char *path,
            eb_dirent_cb callback,
            void *data,
            eb_error **err);

// Shows the extended attributes of a file. Returns 0, what the callback returned to end the list, or -1
// on failure.
//
// # Safety
//
// As for eb_list.
int eb_xattrs(const eb_fs *fs,
              const char *path,
              eb_xattr_cb callback,
              void *data,
              eb_error **err);

// Copies the target of a symbolic link, without a zero byte, as far as it fits. Returns its length,
// which may exceed `size`, or -1 on failure.
//
// # Safety
//
// `fs` is alive, `path` a string, `buffer` has `size` bytes, `err` is NULL or writable.
int64_t eb_readlink(const eb_fs *fs, const char *path, char *buffer, size_t size, eb_error **err);

// Opens a regular file. Returns an object to be released with eb_file_unref, or NULL.
//
// # Safety
//
// `fs` is alive, `path` a string, `err` NULL or writable.
eb_file *eb_file_open(const eb_fs *fs, const char *path, eb_error **err);

// Counts one more user of a file, and returns it.
//
// # Safety
//
// `file` is NULL or alive.
eb_file *eb_file_ref(eb_file *file);

// Counts one user less, and closes the file after the last.
//
// # Safety
//
// `file` is NULL or alive.
void eb_file_unref(eb_file *file);

// The length of a file in bytes; 0 for NULL.
//
// # Safety
//
// `file` is NULL or alive.
uint64_t eb_file_size(const eb_file *file);

// Reads up to `length` bytes at `offset`. Returns how many were read, fewer only at the end of the file,
// or -1 on failure: damaged data is an error, never delivered.
//
// # Safety
//
// `file` is alive, `buffer` has `length` bytes, `err` is NULL or writable.
int64_t eb_file_read(const eb_file *file,
                     uint64_t offset,
                     void *buffer,
                     size_t length,
                     eb_error **err);

// Reads a part of the file at a path, as eb_file_read does.
//
// # Safety
//
// `fs` is alive, `path` a string, `buffer` has `length` bytes, `err` is NULL or writable.
int64_t eb_read(const eb_fs *fs,
                const char *path,
                uint64_t offset,
                void *buffer,
                size_t length,
                eb_error **err);

// Copies everything into a folder, which is made if it is missing. `findings` may be NULL. Returns 0, 1
// if something was left out or damaged, or -1 on failure.
//
// # Safety
//
// `fs` is alive, `folder` a string, `options` NULL or filled, `findings` can be called with `data`,
// `err` is NULL or writable.
int eb_extract(const eb_fs *fs,
               const char *folder,
               const eb_extract_options *options,
               eb_finding_cb findings,
               void *data,
               eb_error **err);

// Writes everything as a tar archive to a file descriptor, which stays open. Results as for eb_extract.
//
// # Safety
//
// `fs` is alive, `descriptor` open for writing, `findings` can be called with `data`, `err` is NULL or
// writable.
int eb_to_tar(const eb_fs *fs,
              int descriptor,
              eb_finding_cb findings,
              void *data,
              eb_error **err);

// Opens the image at a path: a file, or a part of one with the options offset and length. Returns an
// object to be released with eb_image_unref, or NULL.
//
// # Safety
//
// `path` is a string, `options` NULL or filled, `err` NULL or writable.
eb_image *eb_open(const char *path,
                  const eb_options *options,
                  eb_error **err);

// Opens an image in memory, which is copied.
//
// # Safety
//
// `bytes` points to `length` bytes; the rest as for eb_open.
eb_image *eb_open_bytes(const void *bytes,
                        size_t length,
                        const eb_options *options,
                        eb_error **err);

// Opens an image that the functions of io read. io itself is copied. Its close is called when nothing
// uses the image any more, also if this function fails, unless io or its struct_size is wrong.
//
// # Safety
//
// The functions of `io` can be called by any thread with its data until close is called; the rest as
// for eb_open.
eb_image *eb_open_io(const eb_io *io,
                     const eb_options *options,
                     eb_error **err);

// Counts one more user of an image, and returns it.
//
// # Safety
//
// `image` is NULL or alive.
eb_image *eb_image_ref(eb_image *image);

// Counts one user less, and closes the image after the last. File systems and files that were opened
// from it stay valid.
//
// # Safety
//
// `image` is NULL or alive.
void eb_image_unref(eb_image *image);

// The format: "ubi", "ubifs", "jffs2", "yaffs", "axfs", "logfs" or "squashfs". Lives as long as the
// image; NULL for NULL.
//
// # Safety
//
// `image` is NULL or alive.
const char *eb_image_format(const eb_image *image);

// Shows what was found when the image was opened. Returns 0, or -1 on failure.
//
// # Safety
//
// `image` is alive, `callback` can be called with `data`, `err` is NULL or writable.
int eb_image_findings(const eb_image *image, eb_finding_cb callback, void *data, eb_error **err);

// Shows the volumes; there are none unless the image is a UBI. Returns 0, what the callback returned to
// end the list, or -1 on failure.
//
// # Safety
//
// As for eb_image_findings.
int eb_image_volumes(const eb_image *image,
                     eb_volume_cb callback,
                     void *data,
                     eb_error **err);

// Opens the file system of a volume, by its name or its number in decimal, or with NULL the only file
// system of the image. Returns an object to be released with eb_fs_unref, or NULL.
//
// # Safety
//
// `image` is alive, `volume` NULL or a string, `err` NULL or writable.
eb_fs *eb_image_fs(const eb_image *image,
                   const char *volume,
                   eb_error **err);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ERASEBLOCK_H */
