/* Files on the GPU's node, read into device memory and written from it in stream order.
 *
 * The functions are in libcuspan-store.so.0. They need `cuspan run`; without it there is no device.
 * docs/files.md has an example and the ways that the bytes go.
 *
 * Threads: any. The memory is device memory of one cudaMalloc (or the like), on the file's device.
 * Its address may be anywhere in it, and offsets and sizes need no alignment. */
#ifndef CUSPAN_FILE_H
#define CUSPAN_FILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. */
typedef struct cuspanFile* cuspanFile_t;

/* Results of all functions, and of reads and writes. cuspanFileLastMessage explains a function's.
 */
enum {
  CUSPAN_FILE_SUCCESS = 0,
  CUSPAN_FILE_INVALID_VALUE = 1,  /* a null pointer, a device or an extent that does not exist */
  CUSPAN_FILE_INVALID_FILE = 2,   /* not open */
  CUSPAN_FILE_INVALID_MEMORY = 3, /* not in device memory of the file's device */
  CUSPAN_FILE_NOT_PERMITTED = 4,  /* not opened for this, or not allowed by --file-root */
  CUSPAN_FILE_SYSTEM = 5,         /* the operating system's: `error` is an errno */
  CUSPAN_FILE_DEVICE = 6,         /* CUDA's: `error` is a CUresult */
  CUSPAN_FILE_NOT_SUPPORTED = 7,  /* not a regular file, or not within `cuspan run` */
  CUSPAN_FILE_PENDING = 8         /* in a status: the stream has not passed the operation */
};

/* Outcome of a read or write. `bytes` were read or written from its start, also if it failed; fewer
 * than wanted with CUSPAN_FILE_SUCCESS: the end of the file. The device memory behind them may have
 * changed, if the read failed or somebody changed the file's size meanwhile. */
typedef struct cuspanFileStatus {
  int64_t bytes;
  int32_t result;
  int32_t error;
} cuspanFileStatus_t;

/* A stream of the CUDA runtime or driver; NULL is the legacy default stream. */
struct CUstream_st;

/* Opens a regular file for a device, by a descriptor of the program. The program may close the
 * descriptor afterwards. Its offset is neither used nor changed. */
int cuspanFileOpenFd(cuspanFile_t* file, int fd, int device);

/* Ways to open a file by its path: CUSPAN_FILE_READ, CUSPAN_FILE_WRITE or both, and with WRITE also
 * CREATE (if there is none; readable and writable, less the umask of the process creating it) and
 * TRUNCATE (its bytes are dropped). DIRECT: without the system's page cache. */
enum {
  CUSPAN_FILE_READ = 1,
  CUSPAN_FILE_WRITE = 2,
  CUSPAN_FILE_CREATE = 4,
  CUSPAN_FILE_TRUNCATE = 8,
  CUSPAN_FILE_DIRECT = 16
};

/* Opens a regular file for a device, by its path. If the device is on another node, and the path is
 * beneath a `cuspan run --file-root`, it is a file of that node; the program's need not have it.
 * Otherwise it is the program's own. */
int cuspanFileOpen(cuspanFile_t* file, const char* path, unsigned flags, int device);

/* Reads `bytes` at `offset` of the file into device memory, in the order of `stream`. Returns
 * without waiting. `*status` is CUSPAN_FILE_PENDING first, and gets the outcome before the stream
 * has passed the read; it must exist until then. */
int cuspanFileRead(cuspanFile_t file, void* destination, size_t bytes, int64_t offset,
                   struct CUstream_st* stream, cuspanFileStatus_t* status);

/* The reverse. The file grows if necessary. */
int cuspanFileWrite(cuspanFile_t file, const void* source, size_t bytes, int64_t offset,
                    struct CUstream_st* stream, cuspanFileStatus_t* status);

/* Closes a file. Reads and writes before are executed. */
int cuspanFileClose(cuspanFile_t file);

/* Explains the last failure of one of these functions in the calling thread. Valid until the
 * thread's next call of one. NULL in a fully static program, which has no devices. */
const char* cuspanFileLastMessage(void);

#ifdef __cplusplus
}
#endif

#endif
