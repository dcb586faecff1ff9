// Blocks: what a segment of the journal is made of; each carries its length and a checksum, so that
// a torn end is told from damage. Pure; written by the store's thread, read by replays.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::journal {

// A segment is kMagic, the format's version (4 bytes, least first), then blocks to its end:
//
//   length  4 bytes   of the payload
//   sum     4 bytes   CRC-32C of length, type and payload
//   type    1 byte
//   payload
constexpr std::string_view kMagic = "lambentJ";
// What is written, and the oldest that is read. 2 added TenantChanged, the host memory of a profile
// and the error code STORAGE_FULL, 3 max_queue_time and `promised`, 4 the account of a profile, 5
// its sandbox_concurrency and InvocationUndelivered, 6 its gpu_count, 7 CallForeseen, 8
// SandboxCrowdedOut and sandboxes on devices that were kept (SandboxReady::kept_of), 9 GpuTimeUsed;
// a segment without these has the bytes that it always had.
constexpr uint32_t kFormatVersion = 9;
constexpr uint32_t kOldestFormatVersion = 1;
constexpr size_t kPreambleSize = 12;
constexpr size_t kBlockHeadSize = 9;
constexpr size_t kMostBlockPayload = size_t{1} << 24;

enum class BlockType : uint8_t {
  kHeader = 1,    // SegmentHeader
  kSnapshot = 2,  // a piece of the dispatcher's state; pieces come in order
  kNames = 3,     // names of functions
  kEvents = 4,    // see event_codec.h
  kEnd = 5,       // the segment was closed; nothing comes after it
};

struct Block {
  BlockType type = BlockType::kEvents;
  std::string payload;
  uint64_t offset = 0;  // of the block in its file
};

std::string preamble();
void append_block(std::string& out, BlockType type, std::string_view payload);

// Where a segment stops before it was closed: its writer was killed, or still writes.
struct TornEnd {
  uint64_t offset = 0;   // up to here it is whole
  uint64_t ignored = 0;  // bytes after that
};

class BlockReader {
 public:
  // Fills the buffer with the bytes that come next; less than asked for only at the end.
  using Source = std::function<Result<size_t>(char* buffer, size_t size)>;

  // `file` is the name that messages give.
  BlockReader(std::string file, Source source)
      : file_(std::move(file)), source_(std::move(source)) {}

  // Reads the preamble. INVALID_ARGUMENT if this is no journal, FAILED_PRECONDITION if it is one of
  // another version.
  Result<void> open();
  // The next block; nullopt at the end, when torn_end() says whether it is a torn one. DATA_LOSS
  // where a block is damaged.
  Result<std::optional<Block>> next();

  // After next() gave nullopt: how it ended; nullopt if it was closed.
  const std::optional<TornEnd>& torn_end() const { return torn_; }
  const std::string& file() const { return file_; }
  // DATA_LOSS at an offset of this file, with what to do about it.
  Error damage(uint64_t offset, std::string_view what) const;

 private:
  Result<std::optional<Block>> torn(uint64_t offset, uint64_t ignored);

  std::string file_;
  Source source_;
  uint64_t offset_ = 0;
  bool closed_ = false;
  std::optional<TornEnd> torn_;
};

}  // namespace lambent::journal
