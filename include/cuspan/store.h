/* Arrays in files, read by kernels. Only the parts of a file touched by kernels travel to the GPU.
 *
 * The functions are in libcuspan-store.so.0. A program runs unchanged with the GPU of its own node,
 * and with those of `cuspan run`: then the file is read on the GPU's node. cuspan/store.cuh has the
 * C++ classes and the functions for kernels; docs/files.md an example.
 *
 * A file must not change while an array of it is open: kernels may see old or new bytes, and
 * cuspanArrayCheck reports the change.
 *
 * Threads: any. A cache and its arrays: one at a time. No function may be called while the calling
 * thread captures a stream. */
#ifndef CUSPAN_STORE_H
#define CUSPAN_STORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of all functions. cuspanStoreLastMessage explains a failure. The numbers are those of
 * cuspan/file.h. */
enum {
  CUSPAN_STORE_SUCCESS = 0,
  CUSPAN_STORE_INVALID_VALUE = 1, /* an argument, a size or a file that does not fit */
  CUSPAN_STORE_INVALID_FILE = 2,  /* not open; for cuspanArrayCheck: the file has changed */
  CUSPAN_STORE_NOT_PERMITTED = 4, /* not opened for reading, or not allowed by --file-root */
  CUSPAN_STORE_SYSTEM = 5,        /* the operating system's: a file, or memory of the host */
  CUSPAN_STORE_DEVICE = 6,        /* CUDA's: too little device memory, for instance */
  CUSPAN_STORE_NOT_SUPPORTED = 7  /* not a regular file, or a file of another kind */
};

/* Device memory for lines of files, shared by arrays of one device. */
typedef struct cuspanCache_st* cuspanCache_t;

typedef struct {
  uint64_t bytes; /* of all lines; all of it is allocated at once, and 8 bytes for each line */
  uint32_t line;  /* bytes fetched at a time: a power of two, 512 to 65,536 */
  int32_t device; /* a device of the CUDA runtime */
} cuspanCacheConfig_t;

/* Makes a cache of at least 4 lines. */
int cuspanCacheCreate(cuspanCache_t* cache, const cuspanCacheConfig_t* config);
/* Ends a cache. INVALID_VALUE while arrays use it. */
int cuspanCacheDestroy(cuspanCache_t cache);

/* Places of an array's bytes. */
enum {
  CUSPAN_BACKING_FILE = 0,        /* the file on the GPU's node, read through the cache when kernels
                                     ask for it; parts asked for often come into page-locked memory.
                                     If that node has not the file: device memory */
  CUSPAN_BACKING_HOST = 1,        /* page-locked memory of the GPU's node, without the cache */
  CUSPAN_BACKING_HOST_CACHED = 2, /* the same, read through the cache */
  CUSPAN_BACKING_DEVICE = 3       /* device memory, all of it read when the array is opened */
};

/* Formats of files. */
enum {
  CUSPAN_FORMAT_AUTO = 0, /* NPY if the path ends in .npy, otherwise RAW */
  CUSPAN_FORMAT_RAW = 1,  /* elements without anything else */
  CUSPAN_FORMAT_NPY = 2   /* NumPy's, little-endian, in C order, of at most 4 dimensions */
};

#define CUSPAN_MAX_DIMENSIONS 4

typedef struct {
  const char* path;     /* or NULL: */
  int32_t fd;           /* a descriptor, open for reading; the program may close it afterwards */
  uint32_t element;     /* bytes of an element: a power of two, 1 to 512, and to the line */
  char kind;            /* NumPy's kind of the elements ('u', 'i', 'f', 'c', 'b'), or 0: any */
  uint8_t format;       /* CUSPAN_FORMAT_… */
  uint8_t backing;      /* CUSPAN_BACKING_… */
  uint8_t counts_reads; /* 1: kernels also count the values read; slower */
  uint32_t dimensions;  /* of shape, for raw files; 0: one dimension, up to the end of the file */
  uint64_t offset;      /* of the first element, for raw files: a multiple of `element` */
  uint64_t shape[CUSPAN_MAX_DIMENSIONS]; /* elements of each dimension, the slowest first */
} cuspanArrayConfig_t;

typedef struct cuspanArray_st* cuspanArray_t;

/* Opens an array. Waits until its bytes are where `backing` says. Paths and descriptors mean the
 * same files as those of cuspanFileOpen and cuspanFileOpenFd. */
int cuspanArrayOpen(cuspanArray_t* array, const cuspanArrayConfig_t* config, cuspanCache_t cache);
/* Closes an array. Waits for all kernels of the device. The lines of the other arrays leave the
 * cache, too: until it returns, no kernel that uses an array of the cache may be launched. After
 * NOT_PERMITTED (a stream is in capture) it is still open; after all other failures it is closed:
 * INVALID_FILE, for instance, if the device was reset. */
int cuspanArrayClose(cuspanArray_t array);

/* Values for kernels, passed to them by value. Only the fields with names not ending in '_' are for
 * programs. */
typedef struct {
  uint64_t count;                          /* elements */
  uint64_t shape[CUSPAN_MAX_DIMENSIONS];   /* elements of each dimension, the slowest first; or 1 */
  const unsigned char* all_;               /* address of the first element; NULL: by lines */
  uint64_t* words_;                        /* a word for each line of the file (store_device.cuh) */
  unsigned char* slots_;                   /* lines in device memory */
  uint64_t* report_;                       /* CUSPAN_REPORT_… (store_tables.h) */
  const struct cuspanArrayTables* tables_; /* what is needed besides for a miss, in device memory */
  uint64_t start_;                         /* offset of the first element in the file */
  uint8_t dimensions;
  uint8_t line_shift_; /* a line has 2^line_shift_ bytes */
  uint8_t counts_reads_;
  uint8_t reserved_[5];
} cuspanArrayView_t;

int cuspanArrayGetView(cuspanArray_t array, cuspanArrayView_t* view);

/* Reports the first error of kernels that have ended, and a change of the file since the array was
 * opened. INVALID_VALUE: an index out of range. SYSTEM: the file could not be read. Such reads gave
 * zero. */
int cuspanArrayCheck(cuspanArray_t array);

typedef struct {
  uint64_t lines;        /* fetched into the cache */
  uint64_t bytes;        /* of these lines, and of values read past the cache */
  uint64_t past;         /* values read past the cache, since all lines tried were in use */
  uint64_t reads;        /* values read, if `counts_reads` */
  uint64_t served;       /* reads of lines answered by the GPU's node, of all its kernels so far */
  uint64_t served_bytes; /* bytes read from the file for them */
  uint64_t resident;     /* bytes of the file page-locked on the GPU's node */
  uint64_t device_bytes; /* of tables, or of the array itself */
  int32_t backing;       /* the one in use: CUSPAN_BACKING_… */
  int32_t copied;        /* 1: the resident bytes are a copy of the file's; 0: its own pages */
} cuspanArrayStatistics_t;

/* Counts of kernels that have ended. */
int cuspanArrayGetStatistics(cuspanArray_t array, cuspanArrayStatistics_t* statistics);

/* Explains the last failure of one of these functions in the calling thread. Valid until the
 * thread's next call of one. */
const char* cuspanStoreLastMessage(void);

#ifdef __cplusplus
}
#endif

#endif
