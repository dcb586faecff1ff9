// workflow_scenario_runner FILE...: plays scenarios of workflows; says which line of which did not
// come true. See ../README.md for the language.
#include <memory>

#include "tests/scenarios/story.h"
#include "tests/scenarios/workflows/given.h"
#include "tests/scenarios/workflows/stage.h"

namespace lambent::workflow_scenario {
namespace {

class WorkflowStory final : public scenario::Story {
 public:
  bool read_given(Words& words) override { return given_.read(words); }
  void begin() override { stage_ = std::make_unique<Stage>(given_); }
  void play(Words& words) override { stage_->play(words); }
  void expect(Words& words) override { stage_->expect(words); }
  void end() override { stage_->end(); }

 private:
  Given given_;
  std::unique_ptr<Stage> stage_;
};

}  // namespace
}  // namespace lambent::workflow_scenario

int main(int count, char** arguments) {
  using lambent::workflow_scenario::WorkflowStory;
  return lambent::scenario::play_files(count, arguments,
                                       [] { return std::make_unique<WorkflowStory>(); });
}
