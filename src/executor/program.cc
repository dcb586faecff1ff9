#include "executor/program.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace lambent::executor {

using kernel_graph::BufferArgument;
using kernel_graph::kNoFlag;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;
using kernel_graph::Repeat;
using kernel_graph::Step;
using kernel_graph::StepOrder;

namespace {

uint64_t written_out(const std::vector<Step>& steps);

// Kernels of the step with its rounds written out; saturates above kMostNodes. One that only the
// host can repeat counts as too many.
uint64_t written_out(const Step& step) {
  const Repeat* repeat = std::get_if<Repeat>(&step);
  if (repeat == nullptr) return 1;
  const uint64_t inside = written_out(repeat->steps);
  const bool too_many =
      repeat->until != kNoFlag || inside > kMostNodes || repeat->times > kMostNodes;
  return too_many ? kMostNodes + 1 : std::min(repeat->times * inside, kMostNodes + 1);
}

uint64_t written_out(const std::vector<Step>& steps) {
  uint64_t count = 0;
  for (const Step& step : steps) count = std::min(count + written_out(step), kMostNodes + 1);
  return count;
}

// More edges than this between two rounds go through a node of their own.
constexpr size_t kMostEdges = 16;

using Nodes = std::vector<CUgraphNode>;

}  // namespace

// Makes graphs of runs of steps that can be written out, and instructions of the rest.
struct Program::Compiler {
  const cuda::Driver& driver;
  const KernelOf& find_kernel;
  Program& program;

  Result<void> open_part() {
    ASSIGN_OR_RETURN(auto graph, cuda::Graph::create(driver));
    const auto next = static_cast<uint32_t>(program.nodes_.size());
    program.parts_.push_back({std::move(graph), nullptr, {next, next}});
    return {};
  }
  Result<void> close_part(uint64_t times) {
    Part& part = program.parts_.back();
    part.kernels.end = static_cast<uint32_t>(program.nodes_.size());
    ASSIGN_OR_RETURN(auto exec, cuda::ExecutableGraph::instantiate(driver, part.graph));
    part.exec = std::make_unique<cuda::ExecutableGraph>(std::move(exec));
    emit({.kind = Instruction::Kind::kLaunch,
          .graph = static_cast<uint32_t>(program.parts_.size() - 1),
          .times = times});
    return {};
  }
  uint32_t emit(const Instruction& instruction) {
    program.instructions_.push_back(instruction);
    return static_cast<uint32_t>(program.instructions_.size() - 1);
  }
  uint32_t next() const { return static_cast<uint32_t>(program.instructions_.size()); }

  Result<CUgraphNode> add_launch(const Launch& launch, const Nodes& after) {
    ASSIGN_OR_RETURN(const CUfunction function, find_kernel(launch));
    const auto number = static_cast<uint32_t>(program.nodes_.size());
    ASSIGN_OR_RETURN(const CUgraphNode node, program.parts_.back().graph.add_kernel(
                                                 program.kernel_of(launch, function), after));
    program.nodes_.push_back(
        {node, &launch, function, static_cast<uint32_t>(program.parts_.size() - 1)});
    for (const auto& argument : launch.arguments) {
      const auto* buffer = std::get_if<BufferArgument>(&argument);
      if (buffer == nullptr) continue;
      auto& users = program.nodes_of_[buffer->buffer];
      if (users.empty() || users.back() != number) users.push_back(number);
    }
    return node;
  }

  // Adds steps [begin, end) to the open part, behind `entry`; the nodes that nobody of them waits
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
        ASSIGN_OR_RETURN(exits[i], add_rounds(repeat, order.inside[i], repeat.times, after));
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
      ASSIGN_OR_RETURN(const CUgraphNode gate, program.parts_.back().graph.add_empty(after));
      after = {gate};
    }
    return after;
  }

  // Consecutive steps that can be written out become one graph; the others instructions.
  Result<void> compile(const std::vector<Step>& steps, const StepOrder& order) {
    for (size_t begin = 0; begin < steps.size();) {
      const Repeat* repeat = std::get_if<Repeat>(&steps[begin]);
      if (repeat != nullptr && written_out(steps[begin]) > kMostNodes) {
        RETURN_IF_ERROR(compile_repeat(*repeat, order.inside[begin]));
        ++begin;
        continue;
      }
      size_t end = begin;
      uint64_t count = 0;
      for (; end < steps.size(); ++end) {
        const uint64_t more = written_out(steps[end]);
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
    ASSIGN_OR_RETURN(const Nodes last, add_steps(steps, order, begin, end, {}));
    return close_part(1);
  }

  Result<void> compile_repeat(const Repeat& repeat, const StepOrder& order) {
    const uint64_t inside = written_out(repeat.steps);
    if (repeat.until == kNoFlag && inside <= kMostNodes) {
      const uint64_t rounds = std::max<uint64_t>(1, kMostNodes / std::max<uint64_t>(1, inside));
      RETURN_IF_ERROR(open_part());
      ASSIGN_OR_RETURN(const Nodes last, add_rounds(repeat, order, rounds, {}));
      RETURN_IF_ERROR(close_part(repeat.times / rounds));
      if (repeat.times % rounds == 0) return {};
      RETURN_IF_ERROR(open_part());
      ASSIGN_OR_RETURN(const Nodes rest, add_rounds(repeat, order, repeat.times % rounds, {}));
      return close_part(1);
    }
    if (repeat.until != kNoFlag) {
      emit({.kind = Instruction::Kind::kZeroFlag, .buffer = repeat.until});
    }
    emit({.kind = Instruction::Kind::kBegin, .times = repeat.times});
    const uint32_t first = next();
    RETURN_IF_ERROR(compile(repeat.steps, order));
    uint32_t check = 0;
    if (repeat.until != kNoFlag) {
      check = emit({.kind = Instruction::Kind::kCheck, .buffer = repeat.until});
    }
    emit({.kind = Instruction::Kind::kEnd, .target = first});
    if (repeat.until != kNoFlag) program.instructions_[check].target = next();
    return {};
  }
};

Result<std::unique_ptr<Program>> Program::compile(const cuda::Driver& driver,
                                                  const kernel_graph::KernelGraph& graph,
                                                  const StepOrder& order,
                                                  const KernelOf& kernel_of) {
  std::unique_ptr<Program> program(new Program(driver, graph.buffers.size()));
  Compiler compiler{driver, kernel_of, *program};
  RETURN_IF_ERROR(compiler.compile(graph.steps, order));
  return program;
}

cuda::KernelNode Program::kernel_of(const Launch& launch, CUfunction function) {
  values_.clear();
  values_.reserve(launch.arguments.size());
  pointers_.clear();
  for (const auto& argument : launch.arguments) {
    if (const auto* buffer = std::get_if<BufferArgument>(&argument)) {
      values_.push_back(addresses_[buffer->buffer] + buffer->offset_bytes);
      pointers_.push_back(&values_.back());
    } else {
      const std::string& bytes = std::get<LiteralArgument>(argument).bytes;
      pointers_.push_back(const_cast<char*>(bytes.data()));
    }
  }
  cuda::KernelNode node;
  node.function = function;
  node.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
  node.block = {launch.block.x, launch.block.y, launch.block.z};
  node.shared_bytes = launch.shared_bytes;
  node.parameters = pointers_;
  return node;
}

Result<void> Program::bind(std::span<const CUdeviceptr> addresses) {
  CHECK(addresses.size() == addresses_.size(), "an address for each buffer");
  std::vector<uint32_t> moved;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses_[i] == addresses[i]) continue;
    addresses_[i] = addresses[i];
    moved.insert(moved.end(), nodes_of_[i].begin(), nodes_of_[i].end());
  }
  if (moved.empty()) return {};
  std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  for (const uint32_t number : moved) {
    const Node& node = nodes_[number];
    auto changed =
        parts_[node.graph].exec->change_kernel(node.node, kernel_of(*node.launch, node.function));
    if (changed.ok()) continue;
    // Nothing is where the graphs think it is: all of it is bound again next time.
    std::fill(addresses_.begin(), addresses_.end(), 0);
    return changed;
  }
  return {};
}

Result<void> Program::launch(uint32_t graph, CUstream stream) const {
  return parts_[graph].exec->launch(stream);
}

Result<void> Program::launch_kernel(uint32_t kernel, CUstream stream) {
  const Node& node = nodes_[kernel];
  return cuda::launch(driver_, kernel_of(*node.launch, node.function), stream);
}

}  // namespace lambent::executor
