#include "decide/journal/block.h"

#include <cstring>

#include "decide/journal/crc32c.h"

namespace lambent::journal {
namespace {

void append_word(std::string& out, uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(word >> shift));
}

uint32_t word_at(const char* bytes) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  return word;
}

// The checksum covers all of the block but itself.
uint32_t sum_of(std::string_view length, std::string_view type, std::string_view payload) {
  return crc32c(payload, crc32c(type, crc32c(length)));
}

}  // namespace

std::string preamble() {
  std::string bytes(kMagic);
  append_word(bytes, kFormatVersion);
  return bytes;
}

void append_block(std::string& out, BlockType type, std::string_view payload) {
  std::string head;
  append_word(head, static_cast<uint32_t>(payload.size()));
  const char kind = static_cast<char>(type);
  const uint32_t sum = sum_of(head, {&kind, 1}, payload);
  append_word(head, sum);
  head.push_back(kind);
  out.append(head).append(payload);
}

Error BlockReader::damage(uint64_t offset, std::string_view what) const {
  return {ErrorCode::kDataLoss, file_ + ", byte " + std::to_string(offset) + ": " +
                                    std::string(what) +
                                    "; move this file away to read the other segments, each of "
                                    "which can be replayed by itself"};
}

Result<void> BlockReader::open() {
  char bytes[kPreambleSize];
  ASSIGN_OR_RETURN(const size_t got, source_(bytes, sizeof(bytes)));
  offset_ = got;
  if (got == 0) {
    torn_ = TornEnd{};
    return {};
  }
  if (std::string_view(bytes, std::min(got, kMagic.size())) != kMagic.substr(0, got)) {
    return Error{ErrorCode::kInvalidArgument,
                 file_ +
                     ", byte 0: this is no segment of a journal; name the folder that 'lambent "
                     "serve --journal' or 'lambent simulate --journal' wrote"};
  }
  if (got < sizeof(bytes)) {
    torn_ = TornEnd{0, got};
    return {};
  }
  const uint32_t version = word_at(bytes + kMagic.size());
  if (version < kOldestFormatVersion || version > kFormatVersion) {
    return Error{ErrorCode::kFailedPrecondition,
                 file_ + ", byte " + std::to_string(kMagic.size()) +
                     ": this journal has format version " + std::to_string(version) +
                     ", this program reads versions " + std::to_string(kOldestFormatVersion) +
                     " to " + std::to_string(kFormatVersion) +
                     "; use the lambent that recorded it"};
  }
  return {};
}

Result<std::optional<Block>> BlockReader::torn(uint64_t offset, uint64_t ignored) {
  torn_ = TornEnd{offset, ignored};
  return std::optional<Block>();
}

Result<std::optional<Block>> BlockReader::next() {
  if (torn_ || closed_) return std::optional<Block>();
  const uint64_t offset = offset_;
  char head[kBlockHeadSize];
  ASSIGN_OR_RETURN(const size_t got, source_(head, sizeof(head)));
  if (got < sizeof(head)) return torn(offset, got);
  const uint32_t length = word_at(head);
  if (length > kMostBlockPayload) {
    return damage(offset, "a block says that it has " + std::to_string(length) + " bytes");
  }
  Block block{.type = static_cast<BlockType>(head[8]), .payload = {}, .offset = offset};
  block.payload.resize(length);
  ASSIGN_OR_RETURN(const size_t read, source_(block.payload.data(), length));
  if (read < length) return torn(offset, got + read);
  if (sum_of({head, 4}, {head + 8, 1}, block.payload) != word_at(head + 4)) {
    return damage(offset, "a block's checksum is not that of its bytes");
  }
  offset_ += got + read;
  if (block.type == BlockType::kEnd) {
    closed_ = true;
    char more = 0;
    ASSIGN_OR_RETURN(const size_t after, source_(&more, 1));
    if (after > 0) return damage(offset_, "something follows the end of the segment");
  }
  return std::optional<Block>(std::move(block));
}

}  // namespace lambent::journal
