#include "client/bench/measure.h"

#include <algorithm>
#include <chrono>

#include "client/lib/mlxcomm.hpp"

namespace mlxcomm::bench {
namespace {

constexpr std::size_t kReported = 2;  // What each rank reports: its mean time, elements wrong.

class Rank {
 public:
  Rank(Connection& connection, Group& group, const MeasureOptions& options)
      : group_(group),
        options_(options),
        measured_(options.measured),
        type_(static_cast<mlxcomm_data_type>(measured_.type)),
        input_(connection, std::max(BytesMost(InputElements),
                                    options.in_place ? BytesMost(OutputElements) : 0)),
        apart_(connection, options.in_place ? 1 : BytesMost(OutputElements)),
        output_(options.in_place ? input_.data() : apart_.data()),
        told_(connection, kReported * sizeof(double)),
        heard_(connection, kReported * sizeof(double) * measured_.size) {}

  Outcome MeasureSize(std::uint64_t count) {
    FillInput(measured_, count, input_.data());
    group_.Barrier();
    for (std::uint32_t i = 0; i < options_.warm_up; ++i) Operate(count);
    group_.Barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < options_.iterations; ++i) Operate(count);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    const std::uint64_t wrong = options_.check ? Check(count) : 0;
    return Share(count, took.count() / options_.iterations, wrong);
  }

 private:
  std::uint64_t BytesMost(std::uint64_t (*elements)(const Measured&, std::uint64_t)) const {
    const std::uint64_t most = *std::ranges::max_element(options_.counts);
    return std::max<std::uint64_t>(1, elements(measured_, most) * DataTypeBytes(measured_.type));
  }

  void Operate(std::uint64_t count) {
    if (IsPointToPoint(measured_.kind)) return PassOn(count);
    mlxcomm_request request{};
    request.kind = static_cast<mlxcomm_kind>(measured_.kind);
    request.type = type_;
    request.op = static_cast<mlxcomm_operator>(measured_.op);
    request.peer = kRoot;
    request.input = input_.data();
    request.output = output_;
    request.count = count;
    group_.CarryOut(request);
  }
  void PassOn(std::uint64_t count) {
    const std::uint32_t next = (measured_.rank + 1) % measured_.size;
    const std::uint32_t before = (measured_.rank + measured_.size - 1) % measured_.size;
    Ticket receive = group_.ReceiveAsync(output_, count, type_, before);
    group_.Send(input_.data(), count, type_, next);
    receive.Wait();
  }

  // Else remains of earlier operations could pass for a result, or in place for an input.
  std::uint64_t Check(std::uint64_t count) {
    const std::uint64_t bytes = OutputElements(measured_, count) * DataTypeBytes(measured_.type);
    std::fill_n(static_cast<std::uint8_t*>(output_), bytes, std::uint8_t{0xa5});
    if (options_.in_place) FillInput(measured_, count, input_.data());
    Operate(count);
    return CountWrong(measured_, count, output_);
  }

  Outcome Share(std::uint64_t count, double mean_ns, std::uint64_t wrong) {
    told_.as<double>()[0] = mean_ns;
    told_.as<double>()[1] = static_cast<double>(wrong);
    group_.AllGather(told_.data(), heard_.data(), kReported, MLXCOMM_FLOAT64);
    Outcome outcome{.count = count,
                    .operations = std::uint64_t{options_.warm_up} + options_.iterations +
                                  (options_.check ? 1 : 0),
                    .mean_ns = 0,
                    .fastest_ns = mean_ns,
                    .slowest_ns = mean_ns,
                    .wrong = 0};
    for (std::uint32_t rank = 0; rank < measured_.size; ++rank) {
      const double* const of = heard_.as<double>() + kReported * rank;
      outcome.mean_ns += of[0] / measured_.size;
      outcome.fastest_ns = std::min(outcome.fastest_ns, of[0]);
      outcome.slowest_ns = std::max(outcome.slowest_ns, of[0]);
      outcome.wrong += static_cast<std::uint64_t>(of[1]);
    }
    return outcome;
  }

  Group& group_;
  const MeasureOptions& options_;
  const Measured measured_;
  const mlxcomm_data_type type_;
  Buffer input_;
  Buffer apart_;  // Separate from the input.
  void* const output_;
  Buffer told_;
  Buffer heard_;
};

}  // namespace

void Measure(const MeasureOptions& options, const MeasureListener& listener) {
  mlxcomm_connect_options connect;
  mlxcomm_connect_options_init(&connect);
  if (!options.socket_path.empty()) connect.socket_path = options.socket_path.c_str();
  Connection connection(connect);
  Group group(connection, options.job, options.measured.rank, options.measured.size);
  Rank rank(connection, group, options);
  for (const std::uint64_t count : options.counts) {
    if (options.measured.rank == 0 && !listener.go()) return;
    const Outcome outcome = rank.MeasureSize(count);
    if (options.measured.rank == 0) listener.done(outcome);
  }
  group.Barrier();  // No rank leaves while others still need it.
}

}  // namespace mlxcomm::bench
