// Every kernel: data type x operator x size, two inputs into two outputs, as for two ranks of a
// node. Bytes per second count both reads and writes.
//
//   kernels_benchmark --benchmark_filter='float32/sum'
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "daemon/reduce/kernels.h"

namespace {

using mlxcomm::DataType;
using mlxcomm::ReduceOperator;

constexpr std::int64_t kBytesMin = 4 << 10;    // In the first cache,
constexpr std::int64_t kBytesMid = 256 << 10;  // in the second,
constexpr std::int64_t kBytesMax = 64 << 20;   // in none.
constexpr int kNumbersMax = 32;                // Types and operators.
constexpr std::size_t kAlignment = 4096;

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Memory = std::unique_ptr<std::byte, Freed>;

// Zeros: no operator's speed depends on its input, and floats stay normal.
Memory Zeros(std::size_t bytes) {
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  if (memory == nullptr) std::abort();
  std::fill_n(memory, bytes, std::byte{0});
  return Memory(memory);
}

void Combine(benchmark::State& state, DataType type, ReduceOperator op,
             mlxcomm::reduce::Stores stores) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Memory memory[] = {Zeros(bytes), Zeros(bytes), Zeros(bytes), Zeros(bytes)};
  const std::byte* const inputs[] = {memory[0].get(), memory[1].get()};
  std::byte* const outputs[] = {memory[2].get(), memory[3].get()};
  const mlxcomm::reduce::Reduction reduction{type, op, op == ReduceOperator::kMean ? 2u : 1u};
  for (auto turn : state) {
    mlxcomm::reduce::Combine(reduction, inputs, 2, outputs, 2, bytes / DataTypeBytes(type), stores);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 4 * state.range(0));
}

void Register(DataType type, ReduceOperator op) {
  const std::string name = std::string(DataTypeName(type)) + "/" + ReduceOperatorName(op);
  using mlxcomm::reduce::Stores;
  benchmark::RegisterBenchmark(name.c_str(), Combine, type, op, Stores::kOrdinary)
      ->Arg(kBytesMin)
      ->Arg(kBytesMid)
      ->Arg(kBytesMax);
  benchmark::RegisterBenchmark((name + "/whole_lines").c_str(), Combine, type, op,
                               Stores::kWholeLines)
      ->Arg(kBytesMid);
  benchmark::RegisterBenchmark((name + "/non_temporal").c_str(), Combine, type, op,
                               Stores::kNonTemporal)
      ->Arg(kBytesMax);
}

}  // namespace

int main(int argc, char** argv) {
  for (int type = 1; type < kNumbersMax; ++type) {
    for (int op = 1; op < kNumbersMax; ++op) {
      const auto data_type = static_cast<DataType>(type);
      const auto reduce_operator = static_cast<ReduceOperator>(op);
      if (!IsValid(data_type) || !IsValid(reduce_operator)) continue;
      if (HasMeaning(data_type, reduce_operator)) Register(data_type, reduce_operator);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
