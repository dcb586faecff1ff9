// scenario_runner FILE...: plays scenarios of dispatch; says which line of which did not come true.
// See README.md in this folder for the language.
#include <memory>

#include "tests/scenarios/given.h"
#include "tests/scenarios/stage.h"
#include "tests/scenarios/story.h"

namespace lambent::scenario {
namespace {

class DispatchStory final : public Story {
 public:
  bool read_given(Words& words) override { return given_.read(words); }
  void begin() override { stage_ = std::make_unique<Stage>(given_); }
  void play(Words& words) override { stage_->play(words); }
  void expect(Words& words) override { stage_->expect(words); }
  void end() override { stage_->expect_nothing_more(); }

 private:
  Given given_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace
}  // namespace lambent::scenario

int main(int count, char** arguments) {
  using lambent::scenario::DispatchStory;
  return lambent::scenario::play_files(count, arguments,
                                       [] { return std::make_unique<DispatchStory>(); });
}
