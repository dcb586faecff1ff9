// Story: a scenario that a runner plays line by line, and the reader of its lines. The three
// runners share it; each has a language of its own. One thread.
#pragma once

#include <functional>
#include <memory>

#include "tests/scenarios/words.h"

namespace lambent::scenario {

// Its functions throw Failure for a line that is wrong or does not come true.
class Story {
 public:
  virtual ~Story() = default;
  // Reads a line of the first part. False: the line is not of the first part, which is over.
  virtual bool read_given(Words& words) = 0;
  // Once, after the first part.
  virtual void begin() = 0;
  // The rest of a line that begins with "at", and of one that begins with "expect".
  virtual void play(Words& words) = 0;
  virtual void expect(Words& words) = 0;
  // After the last line. Fails if something happened that the story does not tell.
  virtual void end() = 0;
};

// A story whose first part a Given reads, and whose other lines a Stage plays that is made of it.
template <typename Given, typename Stage>
class StagedStory final : public Story {
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

// The main function of a runner: plays each file, and reports which line of it is wrong. Returns
// the exit status.
int play_files(int count, char** arguments, const std::function<std::unique_ptr<Story>()>& make);

}  // namespace lambent::scenario
