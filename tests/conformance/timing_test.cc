// Modelled time is exact and repeatable: what events say follows from what was submitted, and not
// from how fast the threads of this machine are.
#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Timing : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    MODELLED_TIME_ONLY();
    busy = function("busy");
  }

  CUstream stream() {
    CUstream made = nullptr;
    EXPECT_EQ(cu.stream_create(&made, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return made;
  }
  CUevent record(CUstream stream) {
    CUevent made = nullptr;
    EXPECT_EQ(cu.event_create(&made, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.event_record(made, stream), CUDA_SUCCESS);
    return made;
  }
  void run(CUstream stream, unsigned long long ns) {
    EXPECT_EQ(launch(busy, 4096, 1024, stream, {&ns}), CUDA_SUCCESS);
  }
  float elapsed_ms(CUevent from, CUevent to) {
    float milliseconds = -1;
    EXPECT_EQ(cu.event_elapsed_time_v2(&milliseconds, from, to), CUDA_SUCCESS);
    return milliseconds;
  }

  // Streams that meet in events; the times of all events since the first.
  std::vector<float> timeline() {
    constexpr int kStreams = 3;
    std::vector<CUstream> streams;
    for (int i = 0; i < kStreams; i++) streams.push_back(stream());
    Gate gate;
    EXPECT_EQ(gate.close(streams[0]), CUDA_SUCCESS);
    CUevent origin = record(streams[0]);
    for (CUstream one : streams) EXPECT_EQ(cu.stream_wait_event(one, origin, 0), CUDA_SUCCESS);
    std::vector<CUevent> events;
    for (unsigned long long round = 0; round < 6; round++) {
      for (int i = 0; i < kStreams; i++) {
        run(streams[i], 100'000 + 70'000 * i + 30'000 * round);
        events.push_back(record(streams[i]));
      }
      CUevent met = events[events.size() - 1 - round % kStreams];
      for (CUstream one : streams) EXPECT_EQ(cu.stream_wait_event(one, met, 0), CUDA_SUCCESS);
    }
    gate.open();
    EXPECT_EQ(cu.ctx_synchronize(), CUDA_SUCCESS);
    std::vector<float> times;
    for (CUevent event : events) times.push_back(elapsed_ms(origin, event));
    for (CUstream one : streams) cu.stream_destroy(one);
    return times;
  }

  CUfunction busy = nullptr;
};

TEST_F(Timing, AKernelTakesExactlyItsDurationFromOneEventToTheNext) {
  CUstream one = stream();
  Gate gate;
  OK(gate.close(one));
  run(one, 1'000'000);  // covers the others' launch overhead
  std::vector<CUevent> events{record(one)};
  for (unsigned long long ns : {40'000, 250'000, 3'000'000, 7'000}) {
    run(one, ns);
    events.push_back(record(one));
  }
  gate.open();
  OK(cu.stream_synchronize(one));
  EXPECT_FLOAT_EQ(elapsed_ms(events[0], events[1]), 0.04f);
  EXPECT_FLOAT_EQ(elapsed_ms(events[1], events[2]), 0.25f);
  EXPECT_FLOAT_EQ(elapsed_ms(events[2], events[3]), 3.0f);
  EXPECT_FLOAT_EQ(elapsed_ms(events[3], events[4]), 0.007f);
}

TEST_F(Timing, TheSameSubmissionsGiveTheSameTimes) {
  std::vector<float> first = timeline();
  for (int again = 0; again < 5; again++) EXPECT_EQ(timeline(), first);
}

TEST_F(Timing, WhatWaitsForAnEventBeginsExactlyWhenItHappens) {
  CUstream one = stream(), two = stream();
  Gate gate;
  OK(gate.close(one));
  CUevent origin = record(one);
  run(one, 2'000'000);
  CUevent first = record(one);
  OK(cu.stream_wait_event(two, first, 0));
  run(two, 500'000);
  CUevent second = record(two);
  OK(cu.stream_wait_event(one, second, 0));
  run(one, 250'000);
  CUevent last = record(one);
  gate.open();
  OK(cu.ctx_synchronize());
  EXPECT_FLOAT_EQ(elapsed_ms(first, second), 0.5f);
  EXPECT_FLOAT_EQ(elapsed_ms(second, last), 0.25f);
  EXPECT_GE(elapsed_ms(origin, last), 2.75f);
}

}  // namespace
}  // namespace lambent::conformance
