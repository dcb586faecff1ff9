/* Stage channels for programs that load liblambent_stage.so, Python's ctypes first of all. Plain C;
 * an end is used by one thread at a time, and every call may block it. */
#ifndef LAMBENT_STAGE_CHANNEL_C_API_H
#define LAMBENT_STAGE_CHANNEL_C_API_H

#include <stdint.h>

#ifndef LAMBENT_STAGE_EXPORT
#define LAMBENT_STAGE_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return; status.h says what each means. */
enum {
  LAMBENT_STAGE_DONE = 0,
  LAMBENT_STAGE_TIMED_OUT = 1,
  LAMBENT_STAGE_PEER_GONE = 2,
  LAMBENT_STAGE_ENDED = 3,
  LAMBENT_STAGE_TOO_LARGE = 4,
  LAMBENT_STAGE_MALFORMED = 5,
  LAMBENT_STAGE_DEVICE = 6,
  LAMBENT_STAGE_SYSTEM = 7,
  LAMBENT_STAGE_INVALID = 8,
  LAMBENT_STAGE_FAILED = 9
};

enum { LAMBENT_STAGE_TENSOR = 1, LAMBENT_STAGE_JSON = 2, LAMBENT_STAGE_ERROR = 3 };

/* A tensor or text of one request of a job. */
typedef struct lambent_stage_value {
  uint32_t request;         /* from 0, ascending */
  uint32_t kind;            /* tensor, JSON or error */
  uint32_t datatype;        /* of a tensor: datatypes.h */
  uint32_t container;       /* handed on as it is */
  uint32_t dimension_count; /* of a tensor, at most 8 */
  uint32_t on_device;       /* sending: where the address is */
  uint64_t dimensions[8];   /* in elements */
  uint64_t address;         /* sending: of the bytes */
  uint64_t bytes;           /* contiguous, the last dimension's elements side by side */
} lambent_stage_value;

typedef struct lambent_stage_end lambent_stage_end;

/* Makes the file of a channel with `slots` slots of at most so many bytes each; a slot holds a job.
 * Why not goes to `error`, if it is not null. */
LAMBENT_STAGE_EXPORT int lambent_stage_create(const char* path, uint32_t slots, uint64_t slot_bytes,
                                              uint32_t mode, char* error, uint64_t error_bytes);
/* Ends it for both sides, from outside. */
LAMBENT_STAGE_EXPORT int lambent_stage_end_channel(const char* path, char* error,
                                                   uint64_t error_bytes);

/* Opens the sending end, or the receiving one; a channel has one of each, once. Null, with the
 * reason in `error`, if it cannot. */
LAMBENT_STAGE_EXPORT lambent_stage_end* lambent_stage_open(const char* path, int is_sender,
                                                           char* error, uint64_t error_bytes);
LAMBENT_STAGE_EXPORT void lambent_stage_close(lambent_stage_end* end);
/* Why the last call on this end was not DONE. */
LAMBENT_STAGE_EXPORT const char* lambent_stage_error(const lambent_stage_end* end);
/* Why copies are slower than they could be; empty if they are not. */
LAMBENT_STAGE_EXPORT const char* lambent_stage_note(const lambent_stage_end* end);
LAMBENT_STAGE_EXPORT uint64_t lambent_stage_slot_bytes(const lambent_stage_end* end);

/* For `stream`: no work that is under way uses the memory. */
#define LAMBENT_STAGE_NO_STREAM UINT64_MAX

/* Times are in milliseconds, negative for ever; `stream` is the CUstream whose work the copies of
 * device memory follow. What each waits for and returns: Sender::send, Receiver::receive, take and
 * release. */
LAMBENT_STAGE_EXPORT int lambent_stage_send(lambent_stage_end* end, uint64_t job, uint32_t requests,
                                            const lambent_stage_value* values, uint32_t count,
                                            uint64_t stream, int64_t timeout_ms);
/* *values stays valid until release. */
LAMBENT_STAGE_EXPORT int lambent_stage_receive(lambent_stage_end* end, uint64_t* job,
                                               uint32_t* requests,
                                               const lambent_stage_value** values, uint32_t* count,
                                               int64_t timeout_ms);
LAMBENT_STAGE_EXPORT int lambent_stage_take(lambent_stage_end* end, uint32_t index,
                                            uint64_t address, int on_device, uint64_t stream,
                                            int64_t timeout_ms);
LAMBENT_STAGE_EXPORT int lambent_stage_release(lambent_stage_end* end);

#ifdef __cplusplus
}
#endif
#endif
