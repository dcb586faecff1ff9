#include "core/base/state_archive.h"

#include <bit>
#include <cstring>

#include "core/base/varint.h"

namespace lambent {
namespace {

size_t varint_size(uint64_t number) {
  return (static_cast<size_t>(std::bit_width(number | 1)) + 6) / 7;
}

}  // namespace

void StateArchive::number(uint64_t& value) {
  if (!reading()) {
    append_varint(*out_, value);
  } else if (ok_) {
    // In its shortest form only: a value has one form as bytes.
    const size_t before = in_.size();
    ok_ = take_varint(in_, value) && before - in_.size() == varint_size(value);
  }
}

void StateArchive::field(bool& value) {
  uint64_t wide = value ? 1 : 0;
  number(wide);
  expect(wide <= 1);
  if (ok_) value = wide == 1;
}

void StateArchive::field(double& value) {
  // Bit for bit, so that it is the very same number again.
  uint64_t bits = std::bit_cast<uint64_t>(value);
  char bytes[sizeof(bits)];
  if (!reading()) {
    std::memcpy(bytes, &bits, sizeof(bits));
    out_->append(bytes, sizeof(bytes));
    return;
  }
  expect(in_.size() >= sizeof(bytes));
  if (!ok_) return;
  std::memcpy(&bits, in_.data(), sizeof(bits));
  in_.remove_prefix(sizeof(bits));
  value = std::bit_cast<double>(bits);
}

void StateArchive::field(std::string& value) {
  const size_t size = count(value.size());
  if (!reading()) {
    out_->append(value);
  } else if (ok_) {
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
  }
}

void StateArchive::field(Duration& value) {
  uint64_t word = zigzag(value.count());
  number(word);
  if (reading() && ok_) value = Duration(from_zigzag(word));
}

void StateArchive::field(Instant& value) {
  Duration since = value.time_since_epoch();
  field(since);
  if (reading() && ok_) value = Instant(since);
}

void StateArchive::field(InvocationId& value) {
  field(value.high);
  field(value.low);
}

void StateArchive::field(ObjectId& value) {
  field(value.maker);
  field(value.number);
}

size_t StateArchive::count(size_t size) {
  uint64_t wide = size;
  number(wide);
  if (!reading()) return size;
  // An element takes a byte at the least.
  expect(wide <= in_.size());
  return ok_ ? static_cast<size_t>(wide) : 0;
}

}  // namespace lambent
