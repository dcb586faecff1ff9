#include "core/http/replayed_body.h"
#include "core/http/limits.h"

#include <gtest/gtest.h>

#include <optional>

namespace lambent::http {
namespace {

constexpr size_t kPiece = limits::kRelayWindow.count;

class ReplayedBodyTest : public testing::Test {
 protected:
  void begin(std::string body) {
    body_.emplace(std::make_shared<const std::string>(std::move(body)));
  }
  StreamedExchange::Sink sink() {
    return {.on_bytes =
                [this](std::string_view bytes) {
                  EXPECT_FALSE(ended_);
                  received_ += bytes;
                  if (then_) then_();
                },
            .on_end =
                [this] {
                  EXPECT_FALSE(ended_);
                  ended_ = true;
                }};
  }

  std::optional<ReplayedBody> body_;
  std::string received_;
  bool ended_ = false;
  std::function<void()> then_;
};

TEST_F(ReplayedBodyTest, ComesInPieces) {
  const std::string whole = std::string(kPiece, 'a') + std::string(kPiece, 'b') + "c";
  begin(whole);
  size_t pieces = 0;
  then_ = [&] { ++pieces; };
  body_->receive(sink());
  EXPECT_EQ(received_, whole);
  EXPECT_EQ(pieces, 3u);
  EXPECT_TRUE(ended_);
}

TEST_F(ReplayedBodyTest, AnEmptyOneOnlyEnds) {
  begin("");
  body_->receive(sink());
  EXPECT_EQ(received_, "");
  EXPECT_TRUE(ended_);
}

TEST_F(ReplayedBodyTest, StopsWhereItsReceiverHoldsItAndGoesOnThere) {
  begin(std::string(3 * kPiece, 'a'));
  then_ = [&] { body_->hold(true); };
  body_->receive(sink());
  EXPECT_EQ(received_.size(), kPiece);
  body_->hold(false);
  EXPECT_EQ(received_.size(), 2 * kPiece);
  body_->hold(false);
  EXPECT_EQ(received_.size(), 3 * kPiece);
  EXPECT_FALSE(ended_) << "its last piece was held, too";
  body_->hold(false);
  EXPECT_TRUE(ended_);
  body_->hold(false);
}

TEST_F(ReplayedBodyTest, OneThatIsLetGoOfWithinAPieceGivesItOnce) {
  begin(std::string(2 * kPiece, 'a'));
  then_ = [&] {
    body_->hold(true);
    body_->hold(false);
  };
  body_->receive(sink());
  EXPECT_EQ(received_.size(), 2 * kPiece);
  EXPECT_TRUE(ended_);
}

TEST_F(ReplayedBodyTest, NothingComesOnceItIsGone) {
  begin(std::string(2 * kPiece, 'a'));
  then_ = [&] { body_.reset(); };
  body_->receive(sink());
  EXPECT_EQ(received_.size(), kPiece);
  EXPECT_FALSE(ended_);
}

TEST_F(ReplayedBodyTest, HeldFromTheBeginningItWaits) {
  begin("a");
  body_->hold(true);
  body_->receive(sink());
  EXPECT_EQ(received_, "");
  body_->hold(false);
  EXPECT_EQ(received_, "a");
  EXPECT_TRUE(ended_);
}

}  // namespace
}  // namespace lambent::http
