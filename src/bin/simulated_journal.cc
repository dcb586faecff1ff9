#include "bin/simulated_journal.h"

#include <utility>

namespace lambent::bin {

Result<std::unique_ptr<SimulatedJournal>> SimulatedJournal::open(const std::string& folder,
                                                                 Bytes most_size,
                                                                 journal::RunFacts facts) {
  std::unique_ptr<SimulatedJournal> made(new SimulatedJournal());
  ASSIGN_OR_RETURN(made->store_, journal_store::SegmentStore::open(
                                     {.folder = folder, .most_size = most_size, .waits = true},
                                     made->clock_, made->log_));
  SystemRandom random;
  facts.run = random.next();
  made->recorder_ = std::make_unique<journal::Recorder>(
      std::move(facts), *made->store_,
      journal::RecorderOptions{.segment_size = journal_store::segment_size_of(most_size)});
  return made;
}

void SimulatedJournal::begin(const simulator::Simulation& simulation,
                             const std::vector<std::string>& names) {
  dispatcher_ = &simulation.dispatcher();
  for (uint32_t i = 0; i < names.size(); ++i) recorder_->name(FunctionId{i + 1}, names[i]);
  recorder_->begin(*dispatcher_, Duration(0));
}

SimulatedJournal::~SimulatedJournal() {
  if (recorder_ != nullptr) recorder_->leave_open();
}

Result<void> SimulatedJournal::finish() {
  const bool lost = recorder_->lost_events() > 0;
  recorder_.reset();
  RETURN_IF_ERROR(store_->sync());
  if (lost) return Error{ErrorCode::kDataLoss, "the journal could not be written as a whole"};
  return {};
}

}  // namespace lambent::bin
