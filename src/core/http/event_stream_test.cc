#include "core/http/event_stream.h"

#include <gtest/gtest.h>

namespace lambent::http {
namespace {

EventFrame chunk(std::string payload) {
  return {.headers = {{":message-type", "event"}, {":event-type", "PayloadChunk"}},
          .payload = std::move(payload)};
}

// The prelude of an empty message, and the message of its documentation.
TEST(EventStream, AFrameWithoutHeadersHasTheBytesThatOthersWrite) {
  const std::string empty = encode_frame({});
  EXPECT_EQ(empty, std::string("\0\0\0\x10\0\0\0\0\x05\xc2\x48\xeb\x7d\x98\xc8\xff", 16));
}

TEST(EventStream, FramesComeBackHoweverTheBytesAreCut) {
  const std::string bytes = encode_frame(chunk("one")) + encode_frame(chunk("")) +
                            encode_frame(chunk(std::string(70'000, 'x')));
  for (const size_t step : {1ul, 7ul, 1000ul, bytes.size()}) {
    EventStreamDecoder decoder;
    std::vector<EventFrame> frames;
    for (size_t at = 0; at < bytes.size(); at += step) {
      decoder.feed(std::string_view(bytes).substr(at, step));
      for (;;) {
        auto frame = decoder.next();
        ASSERT_TRUE(frame.ok()) << frame.error().message;
        if (!*frame) break;
        frames.push_back(**std::move(frame));
      }
    }
    EXPECT_FALSE(decoder.has_rest());
    ASSERT_EQ(frames.size(), 3u) << step;
    EXPECT_EQ(frames[0], chunk("one"));
    EXPECT_EQ(frames[1], chunk(""));
    EXPECT_EQ(frames[2].payload.size(), 70'000u);
    EXPECT_EQ(frames[0].header(":event-type"), "PayloadChunk");
    EXPECT_EQ(frames[0].header("x"), "");
  }
}

TEST(EventStream, EveryByteIsCoveredByAChecksum) {
  const std::string bytes = encode_frame(chunk("payload"));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EventStreamDecoder decoder;
    decoder.feed(changed);
    EXPECT_FALSE(decoder.next().ok()) << at;
  }
}

}  // namespace
}  // namespace lambent::http
