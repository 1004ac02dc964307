/* What kernels and the host share about an array of cuspan/store.h. Not for programs.
 *
 * The mailbox. Kernels ask the host for lines whose bytes are in none of the GPU's memories. It has
 * a queue for each multiprocessor, with 2^depth_shift entries: a word written by kernels, a word
 * written by the host, and a place for a line. They are in page-locked memory of the host.
 *
 * A kernel takes a ticket of a queue: the entry is the ticket's low bits, the lap the others. It
 * waits until the entry's turn, in device memory, is the lap: then the former user has taken its
 * answer. It writes the word `asked`, waits for the word `answered` of the same lap, takes the
 * answer, and adds 1 to the turn. The host looks at a queue's next entry only, and answers in any
 * order. So one word is both mark and doorbell, and no value of an earlier lap can match. */
#ifndef CUSPAN_STORE_TABLES_H
#define CUSPAN_STORE_TABLES_H

#include <stdint.h>

/* log2 of the bytes of an extent. A line lies in one of them. */
#define CUSPAN_EXTENT_SHIFT 21

/* Words of cuspanArrayView_t::report_. */
enum {
  CUSPAN_REPORT_ERROR = 0, /* the first error: CUSPAN_ERROR_…, 0 for none */
  CUSPAN_REPORT_INDEX = 1, /* its index, or its offset in the file */
  CUSPAN_REPORT_ERRNO = 2, /* its errno */
  CUSPAN_REPORT_LINES = 3, /* lines fetched */
  CUSPAN_REPORT_PAST = 4,  /* values read past the cache */
  CUSPAN_REPORT_BYTES = 5, /* bytes of both */
  CUSPAN_REPORT_READS = 6, /* values read, if counted */
  CUSPAN_REPORT_WORDS = 7
};

enum {
  CUSPAN_ERROR_INDEX = 1, /* an index out of range */
  CUSPAN_ERROR_READ = 2   /* the host could not read the file */
};

/* Both words have the low 8 bits of the lap + 1 at the top: 0 before the first lap. */
#define CUSPAN_LAP_SHIFT 56
/* Below, in `asked`: 4 bits of CUSPAN_ASK_…, 12 of the array's number, 40 of the line's. */
#define CUSPAN_ASK_SHIFT 52
#define CUSPAN_ASK_ARRAY_SHIFT 40
#define CUSPAN_ASK_ARRAYS 4096
enum {
  CUSPAN_ASK_READ = 1 /* the line's bytes */
};
/* In `answered`: 4 bits of CUSPAN_ANSWER_…, 52 of a value. */
#define CUSPAN_ANSWER_SHIFT 52
enum {
  CUSPAN_ANSWER_BYTES = 1,    /* the line is in the entry's place */
  CUSPAN_ANSWER_RESIDENT = 2, /* value: address of the line's extent, divided by 4,096 */
  CUSPAN_ANSWER_FAILED = 3    /* value: an errno */
};

/* Tables of an array, in device memory. */
struct cuspanArrayTables {
  uint64_t* words;      /* a word for each line of the file (store_device.cuh) */
  uint64_t* owners;     /* for each slot the address of its line's word; or 0 */
  uint32_t* hand;       /* next slot to be taken */
  uint64_t* report;     /* CUSPAN_REPORT_… */
  uint64_t* extents;    /* address of each extent in host memory; 0: it is not there */
  unsigned char* slots; /* lines in device memory */
  uint64_t start;       /* offset of the first element in the file */
  uint64_t end;         /* bytes of the file */
  uint32_t slot_count;
  uint8_t line_shift; /* a line has 2^line_shift bytes */
  /* The mailbox, if there is one. */
  uint8_t depth_shift;
  uint16_t array;              /* the array's number there */
  uint32_t queues;             /* 0: there is none, and all extents have addresses */
  uint64_t* asked;             /* for each entry, those of a queue together */
  const uint64_t* answered;    /* the same */
  const unsigned char* places; /* the same, of a line each */
  uint32_t* tickets;           /* for each queue */
  uint32_t* turns;             /* for each entry */
};

#endif
