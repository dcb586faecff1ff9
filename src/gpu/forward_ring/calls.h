// Call: one driver call as it crosses the ring, and the check that what came is one. A value; the
// meaning of its arguments is the server's to check.
#pragma once

#include <cstdint>

#include "gpu/forward_ring/layout.h"

namespace lambent::forward_ring {

constexpr uint16_t kNoSlot = UINT16_MAX;
constexpr uint32_t kCallArguments = 7;

struct Call {
  uint32_t bytes = 0;  // of this and the data behind it
  uint16_t code = 0;   // a CallCode
  uint16_t slot = kNoSlot;
  uint64_t arguments[kCallArguments] = {};
};
static_assert(sizeof(Call) == 64);

constexpr uint32_t kMostInlineBytes = kMostCallBytes - sizeof(Call);

// Arguments, in their order; results in the slot's values. A context, stream, event, module or
// function is the number that its creation answered; `chunk` a number below kChunks.
//   CreateContext: -> context, its default stream
//   DestroyContext, SynchronizeContext: context
//   MemoryInfo: -> free, total
//   Allocate: context, bytes -> address        AllocateAsync: context, bytes, stream -> address
//   Free: address                              FreeAsync: address, stream
//   ExportMemory: address, high, low (a name; both 0: none) -> high, low: the handle
//   OpenMemory: context, high, low -> address, bytes; given back by Free
//   CopyInline: stream, to; data               CopyIn: stream, to, chunk, bytes
//   CopyOut: stream, from, chunk, bytes
//   CopyRows: stream, to, to pitch, from, from pitch, width, height
//   Fill: stream, to, pitch, value, bytes of an element, width in elements, height
//   CreateStream: context, flags, priority -> stream
//   DestroyStream, SynchronizeStream, QueryStream: stream
//   WaitEvent: stream, event                   CreateEvent: context, flags -> event
//   DestroyEvent, QueryEvent, SynchronizeEvent: event
//   RecordEvent: event, stream                 ElapsedTime: begin, end -> a float's bits
//   Upload: chunk, bytes (more of the image that LoadModule, InstantiateGraph or UpdateGraph takes)
//   LoadModule: context, chunk -> module, bytes of what the compiler had to say (in the chunk)
//   UnloadModule: module
//   FindFunction: module; name -> function, parameters, their bytes, then the attributes by number
//   FindGlobal: module; name -> address, bytes
//   ListFunctions: module, chunk -> count (their numbers are in the chunk)
//   FunctionName: function, chunk -> bytes     FunctionParameters: function, chunk -> count
//   FunctionAttribute: function, attribute -> value
//   SetFunctionAttribute: function, attribute, value      SetCacheConfig: function, config
//   Occupancy: function, block, dynamic bytes, flags -> blocks
//   OccupancySharedMemory: function, blocks, block -> bytes
//   Launch: function, stream, grid x | y << 32, grid z | block x << 32, block y | z << 32,
//           dynamic bytes, cooperative; the parameters
//   HostFunction: stream, token
//   NextHostFunction: -> token, ticket, whether the launch of its graph was refused (then it is not
//                     to be run, and is not done); once one is due
//   HostFunctionDone: ticket, whether it was a copy that failed
//   InstantiateGraph: context, flags -> graph, the node that was wrong (kNoGraphNode: none)
//   UpdateGraph: graph -> a CUgraphExecUpdateResult, the node that was wrong
//   SetGraphNode: graph, node; the node as in an image (graph_image.h), without dependencies
//   EnableGraphNode: graph, node, whether      DestroyGraph: graph
//   UploadGraph, LaunchGraph: graph, stream
enum class CallCode : uint16_t {
#define FORWARD_CALL(name, answered, most) k##name,
#include "gpu/forward_ring/calls.inc"
#undef FORWARD_CALL
};

constexpr uint64_t kNoGraphNode = UINT64_MAX;
// Tokens of host functions that begin with this bit are of graphs: they may come again and again.
constexpr uint64_t kGraphToken = uint64_t{1} << 63;

enum class Answered : uint8_t { kLater, kSlot, kChunk, kSlotChunk };

// What a parameter of a kernel is, as FunctionParameters writes them.
struct ParameterPlace {
  uint32_t offset = 0, bytes = 0;
};

const char* name_of(CallCode code);
Answered answered_how(CallCode code);
// Which argument of the call is the number of a chunk; only of those that have one.
uint32_t chunk_argument(CallCode code);

// Whether the call has a code, the slot or chunk that this code needs and no other, and no more
// data than it may have.
bool is_well_formed(const Call& call);

}  // namespace lambent::forward_ring
