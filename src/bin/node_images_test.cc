#include "bin/node_images.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/log.h"
#include "core/base/testing/testing.h"
#include "core/base/time.h"

namespace lambent {
namespace {

namespace fs = std::filesystem;

TEST(NodeImagesTest, OfAnImageThatNothingAsksForNothingStaysAfterAnHour) {
  const TemporaryFolder folder;
  const std::string name(64, 'a');
  WorkerConfig config;
  config.state_folder = folder.path();
  FakeClock clock;
  loop::EventLoop loop(clock);
  NullLogSink log;
  images::ImageStore images(loop, log, [](auto, auto) { return false; }, {});
  // What a worker that was killed had brought of it.
  std::string copy;
  {
    auto store = volumes::VolumeStore::open(folder.path() + "/image_copies", clock, log,
                                            [](auto work, auto completion) {
                                              work();
                                              completion();
                                              return true;
                                            });
    ASSERT_TRUE(store.ok());
    (*store)->create_volume(kDefaultTenant, name, [](const auto&) {});
    copy = *(*store)->mounted_folder(kDefaultTenant, name);
  }
  const auto node = NodeImages::open(config, loop, log, images);
  ASSERT_TRUE(node.ok()) << to_string(node.error());
  clock.advance(std::chrono::minutes(59));
  loop.run_once(Duration(0));
  EXPECT_TRUE(fs::exists(copy)) << "the next attempt goes on with it";
  clock.advance(std::chrono::minutes(2));
  // Its thread removes it.
  for (int turn = 0; turn < 1000 && fs::exists(copy); ++turn) loop.run_once(milliseconds(10));
  EXPECT_FALSE(fs::exists(copy));
}

}  // namespace
}  // namespace lambent
