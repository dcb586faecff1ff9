#include "node/worker/kept_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/crypto/crypto.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

constexpr size_t kDescriptors = 22;

KeptRecord record() {
  KeptRecord record;
  record.launchers.push_back({.pid = 4711, .channel = 0});
  record.sandboxes.push_back({.launcher = 0,
                              .number = SandboxId(3),
                              .function = FunctionId(7),
                              .plan = std::string(32, 'p'),
                              .pid = 4712,
                              .age = seconds(60),
                              .sandbox_time = milliseconds(4),
                              .init_time = milliseconds(20),
                              .invocations = 5,
                              .listener = 1,
                              .waiting = {2, 21},
                              .resting = {3, 4},
                              .output = 5,
                              .refusals = std::nullopt,
                              .memory = {6, 7},
                              .gpu = std::nullopt});
  KeptSandbox with_gpu = record.sandboxes[0];
  with_gpu.listener = 8;
  with_gpu.waiting = {9};
  with_gpu.resting = {};
  with_gpu.output = 10;
  with_gpu.memory = {};
  with_gpu.gpu = KeptGpu{.devices = {DeviceId{2}},
                         .ledgers = {11},
                         .memory = KeptMemory{.listener = 12,
                                              .processes = {13, 14},
                                              .sequence = 9,
                                              .is_out = true,
                                              .deep = true,
                                              .left = Bytes::mib(300),
                                              .offloaded = Bytes::mib(7),
                                              .link = 15}};
  record.sandboxes.push_back(with_gpu);
  with_gpu.listener = with_gpu.output = std::nullopt;
  with_gpu.waiting = {};
  with_gpu.gpu =
      KeptGpu{.devices = {DeviceId{1}, DeviceId{3}}, .ledgers = {16, 17}, .memory = std::nullopt};
  record.sandboxes.push_back(with_gpu);
  record.node =
      KeptNode{.live = 18, .pristine = 19, .listener = 20, .machine = std::string(32, 'm')};
  return record;
}

// With a digest that is right.
std::string sealed(std::string body) {
  body += crypto::bytes_of(crypto::sha256(body));
  return body;
}

std::string body_of(const std::string& bytes) { return bytes.substr(0, bytes.size() - 32); }

TEST(KeptRecordTest, WhatIsWrittenIsRead) {
  const auto read = decode_kept(encode_kept(record()), kDescriptors);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, record());
}

TEST(KeptRecordTest, EachBitThatChangesIsFound) {
  const std::string bytes = encode_kept(record());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode_kept(changed, kDescriptors).ok()) << bit;
  }
}

TEST(KeptRecordTest, EachPartOfARecordIsNone) {
  const std::string bytes = encode_kept(record());
  const std::string body = body_of(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_kept(bytes.substr(0, size), kDescriptors).ok()) << size;
    if (size < body.size()) {
      EXPECT_FALSE(decode_kept(sealed(body.substr(0, size)), kDescriptors).ok()) << size;
    }
  }
  EXPECT_FALSE(decode_kept(sealed(body + "x"), kDescriptors).ok());
}

TEST(KeptRecordTest, AnotherFormatIsToldFromDamage) {
  std::string body = body_of(encode_kept(record()));
  const std::string format = kept_record_format();
  body.replace(body.find(format), format.size(), std::string(format.size(), '9'));
  const auto refused = decode_kept(sealed(body), kDescriptors);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("another format than " + format));
}

TEST(KeptRecordTest, ADescriptorIsOneThingAndCame) {
  EXPECT_FALSE(decode_kept(encode_kept(record()), kDescriptors - 1).ok());
  KeptRecord twice = record();
  twice.sandboxes[0].output = 6;
  EXPECT_FALSE(decode_kept(encode_kept(twice), kDescriptors).ok());
  for (void (*change)(KeptRecord&) : {
           +[](KeptRecord& it) { it.sandboxes[1].gpu->ledgers[0] = 10; },
           +[](KeptRecord& it) { it.sandboxes[1].gpu->memory->listener = 10; },
           +[](KeptRecord& it) { it.sandboxes[1].gpu->memory->processes[1] = 13; },
           +[](KeptRecord& it) { it.sandboxes[1].gpu->memory->link = 0; },
           +[](KeptRecord& it) { it.node->live = 19; },
           +[](KeptRecord& it) { it.node->listener = 21; },
       }) {
    KeptRecord changed = record();
    change(changed);
    EXPECT_FALSE(decode_kept(encode_kept(changed), kDescriptors).ok());
  }
}

TEST(KeptRecordTest, WhatMakesNoSenseIsRefused) {
  const auto refuses = [](void (*change)(KeptRecord&)) {
    KeptRecord changed = record();
    change(changed);
    return !decode_kept(encode_kept(changed), kDescriptors).ok();
  };
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[0].launcher = 1; }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[0].plan = "short"; }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[0].pid = 0; }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.launchers[0].pid = -1; }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[1].gpu->devices.clear(); }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[1].gpu->memory->is_out = false; }))
      << "without its context, and in";
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[2].gpu->ledgers.pop_back(); }));
  EXPECT_FALSE(refuses([](KeptRecord& it) {
    it.sandboxes[2].gpu->memory = std::exchange(it.sandboxes[1].gpu->memory, std::nullopt);
  })) << "memory of several devices moves as that of one";
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.node->machine.clear(); }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[0].age = seconds(-1); }));
  EXPECT_TRUE(refuses([](KeptRecord& it) { it.sandboxes[0].waiting.clear(); }));
  EXPECT_TRUE(refuses([](KeptRecord& it) {
    it.sandboxes[0].listener.reset();
    it.sandboxes[0].waiting.clear();
  })) << "connections rest, and nothing listens";
}

}  // namespace
}  // namespace lambent::worker
