// How a program comes from a kernel function's steps: what can be written out becomes CUDA graphs,
// the rest instructions of the host, and loops with a flag both, of which the host takes one.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "gpu/executor/program.h"

namespace lambent::executor {

using kernel_graph::Access;
using kernel_graph::BufferArgument;
using kernel_graph::kNoFlag;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;
using kernel_graph::Repeat;
using kernel_graph::Step;
using kernel_graph::StepOrder;

namespace {

uint64_t written_out(const std::vector<Step>& steps, Program::Loops loops);

// Kernels of the step with its rounds written out; saturates above kMostNodes. A loop with a flag
// is the body of a node and a kernel before it, or, if it is the host's, too many.
uint64_t written_out(const Step& step, Program::Loops loops) {
  const Repeat* repeat = std::get_if<Repeat>(&step);
  if (repeat == nullptr) return 1;
  const uint64_t inside = written_out(repeat->steps, loops);
  if (repeat->until != kNoFlag) {
    return loops == Program::Loops::kOfHost ? kMostNodes + 1 : std::min(inside + 2, kMostNodes + 1);
  }
  const bool too_many = inside > kMostNodes || repeat->times > kMostNodes;
  return too_many ? kMostNodes + 1 : std::min(repeat->times * inside, kMostNodes + 1);
}

uint64_t written_out(const std::vector<Step>& steps, Program::Loops loops) {
  uint64_t count = 0;
  for (const Step& step : steps) count = std::min(count + written_out(step, loops), kMostNodes + 1);
  return count;
}

// Of a program; each has a word in memory that is page-locked for it.
constexpr uint32_t kMostLoops = 4095;
// What is written out has no more of them: each has three kernels at least.
constexpr uint32_t kMostLoopsOfAPart = kMostNodes / 3;

// Loops of the device that are made of these steps, or a few more: those in a loop with a flag are
// made twice, for the device's rounds and for the host's, those in another for each round that may
// be written out.
uint64_t most_loops(const std::vector<Step>& steps) {
  uint64_t count = 0;
  for (const Step& step : steps) {
    const Repeat* repeat = std::get_if<Repeat>(&step);
    if (repeat == nullptr) continue;
    const uint64_t inside = most_loops(repeat->steps);
    if (repeat->until != kNoFlag) {
      count += 1 + 2 * inside;
    } else {
      count += repeat->times > kMostNodes ? inside : std::max<uint64_t>(1, repeat->times) * inside;
    }
    count = std::min<uint64_t>(count, kMostLoops);
  }
  return count;
}

LiteralArgument word(uint64_t value) {
  return {DataType::kUint64, {reinterpret_cast<const char*>(&value), sizeof(value)}};
}

LiteralArgument word_at(const uint64_t* place) { return word(reinterpret_cast<uint64_t>(place)); }

// More edges than this between two rounds go through a node of their own.
constexpr size_t kMostEdges = 16;

using Nodes = std::vector<CUgraphNode>;

}  // namespace

// Makes graphs of runs of steps that can be written out, and instructions of the rest.
struct Program::Compiler {
  const cuda::Driver& driver;
  const KernelOf& find_kernel;
  const Loops loops;
  cublas::Handle* blas;
  Program& program;
  const uint64_t words;  // of loops, and one for all
  uint32_t loops_made = 0;
  std::optional<CUgraphNode> last_call = std::nullopt;  // of the open part
  std::optional<cuda::GraphNodes> into = std::nullopt;  // the open part, or a body in it

  Result<void> open_part(bool is_loop = false) {
    ASSIGN_OR_RETURN(auto graph, cuda::Graph::create(driver));
    const auto next = static_cast<uint32_t>(program.nodes_.size());
    program.parts_.push_back({std::move(graph), nullptr, {next, next}, is_loop, {}});
    into.emplace(program.parts_.back().graph);
    last_call.reset();
    return {};
  }
  // The instruction that launches it, which may be told more.
  Result<uint32_t> close_part(uint64_t times) {
    Part& part = program.parts_.back();
    part.kernels.end = static_cast<uint32_t>(program.nodes_.size());
    ASSIGN_OR_RETURN(auto exec, cuda::ExecutableGraph::instantiate(driver, part.graph));
    part.exec = std::make_unique<cuda::ExecutableGraph>(std::move(exec));
    return emit({.kind = part.is_loop ? Instruction::Kind::kLoop : Instruction::Kind::kLaunch,
                 .graph = static_cast<uint32_t>(program.parts_.size() - 1),
                 .times = times});
  }
  uint32_t emit(const Instruction& instruction) {
    program.instructions_.push_back(instruction);
    return static_cast<uint32_t>(program.instructions_.size() - 1);
  }
  uint32_t next() const { return static_cast<uint32_t>(program.instructions_.size()); }

  Result<CUgraphNode> add_launch(const Launch& launch, const Nodes& after) {
    ASSIGN_OR_RETURN(const CUfunction function, find_kernel(launch));
    const auto number = static_cast<uint32_t>(program.nodes_.size());
    Node added{.launch = &launch,
               .function = function,
               .graph = static_cast<uint32_t>(program.parts_.size() - 1)};
    const bool is_call = add_call(added, after);
    if (!is_call) {
      ASSIGN_OR_RETURN(added.node, into->add_kernel(program.kernel_of(launch, function), after));
    }
    program.nodes_.push_back(added);
    for (const auto& argument : launch.arguments) {
      const auto* buffer = std::get_if<BufferArgument>(&argument);
      if (buffer == nullptr) continue;
      auto& users = program.nodes_of_[buffer->buffer];
      if (!users.empty() && users.back() == number) continue;
      users.push_back(number);
      if (program.parts_.back().is_loop) continue;
      program.uses_[buffer->buffer] += is_call ? kUsesOfACall : 1;
    }
    return added.node;
  }

  // Makes the node a call of cuBLAS; false if it is none, or cannot be one.
  bool add_call(Node& node, Nodes after) {
    if (blas == nullptr || program.parts_.back().is_loop) return false;
    node.call = cublas::call_of(*node.launch);
    if (!node.call) return false;
    // All calls of a program have one workspace.
    if (last_call && std::find(after.begin(), after.end(), *last_call) == after.end()) {
      after.push_back(*last_call);
    }
    const auto made = capture_call(node, after);
    if (!made.ok()) {
      if (!program.no_calls_) program.no_calls_ = made.error();
      node.call.reset();
      return false;
    }
    node.node = *made;
    last_call = *made;
    ++program.calls_;
    return true;
  }

  // Buffers have no addresses yet; that of the workspace stands for them. It is aligned like them,
  // and what lies at an offset in one likewise: what cuBLAS does depends on that.
  Result<CUgraphNode> capture_call(const Node& node, const Nodes& after) {
    if (!program.workspace_) {
      ASSIGN_OR_RETURN(auto memory, cuda::DeviceBuffer::allocate(driver, kCallWorkspace));
      program.workspace_.emplace(std::move(memory));
    }
    const auto stand_in = [&](CUdeviceptr offset) {
      return program.workspace_->pointer() + offset % kernel_graph::kBufferAlignment.count;
    };
    const cublas::Operands offsets = program.operands_of(node);
    ASSIGN_OR_RETURN(
        const auto captured,
        blas->capture(*node.call, {stand_in(offsets.a), stand_in(offsets.b), stand_in(offsets.c)},
                      program.workspace()));
    return into->add_child(captured, after);
  }

  // Adds steps [begin, end) to the open part, behind `entry`; the nodes that none of them waits
  // for. What they wait for before `begin` has ended when the part begins.
  Result<Nodes> add_steps(const std::vector<Step>& steps, const StepOrder& order, size_t begin,
                          size_t end, const Nodes& entry) {
    std::vector<Nodes> exits(end);
    std::vector<bool> is_last(end, true);
    for (size_t i = begin; i < end; ++i) {
      Nodes after;
      for (const uint32_t earlier : order.after[i]) {
        if (earlier < begin) continue;
        after.insert(after.end(), exits[earlier].begin(), exits[earlier].end());
        is_last[earlier] = false;
      }
      if (after.empty()) after = entry;
      if (const Launch* launch = std::get_if<Launch>(&steps[i])) {
        ASSIGN_OR_RETURN(const CUgraphNode node, add_launch(*launch, after));
        exits[i] = {node};
      } else {
        const Repeat& repeat = std::get<Repeat>(steps[i]);
        ASSIGN_OR_RETURN(exits[i], repeat.until != kNoFlag
                                       ? add_loop(repeat, order.inside[i], after)
                                       : add_rounds(repeat, order.inside[i], repeat.times, after));
      }
    }
    Nodes last;
    for (size_t i = begin; i < end; ++i) {
      if (is_last[i]) last.insert(last.end(), exits[i].begin(), exits[i].end());
    }
    return last;
  }

  Result<Nodes> add_rounds(const Repeat& repeat, const StepOrder& order, uint64_t rounds,
                           Nodes after) {
    for (uint64_t round = 0; round < rounds; ++round) {
      ASSIGN_OR_RETURN(after, add_steps(repeat.steps, order, 0, repeat.steps.size(), after));
      if (after.size() * repeat.steps.size() <= kMostEdges || round + 1 == rounds) continue;
      ASSIGN_OR_RETURN(const CUgraphNode gate, into->add_empty(after));
      after = {gate};
    }
    return after;
  }

  // A loop that the device does: a kernel that sets its condition, then a node whose body are a
  // round's steps and a kernel that sets it again. The first is in the graph as well, since the
  // value with which a launch begins would hold for the first time that an outer loop comes here
  // only.
  Result<Nodes> add_loop(const Repeat& repeat, const StepOrder& order, const Nodes& after) {
    ASSIGN_OR_RETURN(const auto condition, program.parts_.back().graph.add_condition());
    ++loops_made;
    CHECK(loops_made < words, "a word for each loop");
    const auto* place = static_cast<const uint64_t*>(program.loop_words_->pointer());
    const LiteralArgument stop = word_at(place), rounds = word_at(place + loops_made);
    const BufferArgument writes{repeat.until, 0, Access::kWrite};
    const BufferArgument reads{repeat.until, 0, Access::kRead};
    const auto launch = [&](const char* kernel, std::vector<kernel_graph::Argument> arguments,
                            const Nodes& behind) {
      program.loop_launches_.push_back(
          {std::string(kernel_graph::kLoopBundle), kernel, {}, {}, 0, std::move(arguments)});
      return add_launch(program.loop_launches_.back(), behind);
    };
    ASSIGN_OR_RETURN(const CUgraphNode begin,
                     launch("loop_begin", {word(condition), writes, rounds}, after));
    ASSIGN_OR_RETURN(const auto loop, into->add_loop(condition, Nodes{begin}));
    const cuda::GraphNodes outside = *std::exchange(into, loop.body);
    ASSIGN_OR_RETURN(const Nodes last, add_steps(repeat.steps, order, 0, repeat.steps.size(), {}));
    RETURN_IF_ERROR(
        launch("loop_end_round", {word(condition), reads, rounds, word(repeat.times), stop}, last));
    into = outside;
    return Nodes{loop.node};
  }

  Result<void> compile_layers(const std::vector<Step>& steps, const StepOrder& order,
                              std::span<const uint32_t> layers) {
    for (uint32_t layer = 0; layer < layers.size(); ++layer) {
      emit({.kind = Instruction::Kind::kLayer, .graph = layer});
      const size_t end = layer + 1 < layers.size() ? layers[layer + 1] : steps.size();
      RETURN_IF_ERROR(compile(steps, order, layers[layer], end));
    }
    return {};
  }

  // Consecutive steps that can be written out become one graph; the others instructions.
  Result<void> compile(const std::vector<Step>& steps, const StepOrder& order, size_t begin,
                       size_t last) {
    while (begin < last) {
      const Repeat* repeat = std::get_if<Repeat>(&steps[begin]);
      if (repeat != nullptr && repeat->batch > 0) {
        const uint32_t variant =
            emit({.kind = Instruction::Kind::kVariant, .times = repeat->batch});
        RETURN_IF_ERROR(compile(repeat->steps, order.inside[begin], 0, repeat->steps.size()));
        program.instructions_[variant].target = next();
        ++begin;
        continue;
      }
      if (repeat != nullptr && written_out(steps[begin], Loops::kOfHost) > kMostNodes) {
        RETURN_IF_ERROR(compile_repeat(*repeat, order.inside[begin]));
        ++begin;
        continue;
      }
      size_t end = begin;
      uint64_t count = 0;
      for (; end < last; ++end) {
        const uint64_t more = written_out(steps[end], Loops::kOfHost);
        if (count + more > kMostNodes) break;
        count += more;
      }
      RETURN_IF_ERROR(compile_range(steps, order, begin, end));
      begin = end;
    }
    return {};
  }

  Result<void> compile_range(const std::vector<Step>& steps, const StepOrder& order, size_t begin,
                             size_t end) {
    RETURN_IF_ERROR(open_part());
    RETURN_IF_ERROR(add_steps(steps, order, begin, end, {}));
    RETURN_IF_ERROR(close_part(1));
    return {};
  }

  // As a graph of its own, if the device can do the loop by itself.
  Result<std::optional<uint32_t>> compile_loop(const Repeat& repeat, const StepOrder& order) {
    if (loops == Loops::kOfHost || repeat.until == kNoFlag ||
        written_out(repeat.steps, loops) + 2 > kMostNodes ||
        loops_made + kMostLoopsOfAPart > kMostLoops) {
      return std::optional<uint32_t>();
    }
    if (!program.loop_words_) {
      ASSIGN_OR_RETURN(auto memory,
                       cuda::PinnedBuffer::allocate(driver, Bytes(words * sizeof(uint64_t))));
      memset(memory.pointer(), 0, memory.size().count);
      program.loop_words_.emplace(std::move(memory));
    }
    RETURN_IF_ERROR(open_part(true));
    RETURN_IF_ERROR(add_loop(repeat, order, {}));
    ASSIGN_OR_RETURN(const uint32_t instruction, close_part(1));
    return std::optional<uint32_t>(instruction);
  }

  Result<void> compile_repeat(const Repeat& repeat, const StepOrder& order) {
    const uint64_t inside = written_out(repeat.steps, Loops::kOfHost);
    if (repeat.until == kNoFlag && inside <= kMostNodes) {
      const uint64_t rounds = std::max<uint64_t>(1, kMostNodes / std::max<uint64_t>(1, inside));
      RETURN_IF_ERROR(open_part());
      RETURN_IF_ERROR(add_rounds(repeat, order, rounds, {}));
      RETURN_IF_ERROR(close_part(repeat.times / rounds));
      if (repeat.times % rounds == 0) return {};
      RETURN_IF_ERROR(open_part());
      RETURN_IF_ERROR(add_rounds(repeat, order, repeat.times % rounds, {}));
      RETURN_IF_ERROR(close_part(1));
      return {};
    }
    ASSIGN_OR_RETURN(const auto loop, compile_loop(repeat, order));
    if (repeat.until != kNoFlag) {
      emit({.kind = Instruction::Kind::kZeroFlag, .buffer = repeat.until});
    }
    emit({.kind = Instruction::Kind::kBegin, .times = repeat.times});
    const uint32_t first = next();
    RETURN_IF_ERROR(compile(repeat.steps, order, 0, repeat.steps.size()));
    uint32_t check = 0;
    if (repeat.until != kNoFlag) {
      check = emit({.kind = Instruction::Kind::kCheck, .buffer = repeat.until});
    }
    emit({.kind = Instruction::Kind::kEnd, .target = first});
    if (repeat.until != kNoFlag) program.instructions_[check].target = next();
    if (loop) program.instructions_[*loop].target = next();
    return {};
  }
};

Result<std::unique_ptr<Program>> Program::compile(const cuda::Driver& driver,
                                                  const kernel_graph::KernelGraph& graph,
                                                  const StepOrder& order, const KernelOf& kernel_of,
                                                  Loops loops, cublas::Handle* blas,
                                                  std::span<const uint32_t> layers) {
  std::unique_ptr<Program> program(new Program(driver, graph.buffers.size()));
  const uint64_t words = 1 + most_loops(graph.steps);
  Compiler compiler{driver, kernel_of, loops, blas, *program, words};
  const auto compiled = layers.empty() ? compiler.compile(graph.steps, order, 0, graph.steps.size())
                                       : compiler.compile_layers(graph.steps, order, layers);
  if (compiled.ok()) {
    if (program->calls_ == 0) program->workspace_.reset();  // none could be captured
    return program;
  }
  if (loops == Loops::kOfHost) return compiled.error();
  ASSIGN_OR_RETURN(program, compile(driver, graph, order, kernel_of, Loops::kOfHost, blas, layers));
  program->no_device_loops_ = compiled.error();
  return program;
}

}  // namespace lambent::executor
