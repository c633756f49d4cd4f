// Ranks in a grid, as for tensor and expert parallelism: sums along rows, exchanges unequal shares
// along columns, and continues without a rank that dies.
//
//   mlxcommctl launch -n 4 -- grid [COLUMNS]
//   mlxcommctl launch -n 4 -- grid 2 --lose-a-rank
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "client/lib/mlxcomm.hpp"

namespace {

// Returns 0 if the sum along the row is right.
int SumAlong(mlxcomm::Group& row, mlxcomm::Connection& connection) {
  constexpr std::uint64_t kCount = 1024;
  mlxcomm::Buffer data(connection, kCount * sizeof(float));
  std::fill_n(data.as<float>(), kCount, static_cast<float>(row.rank() + 1));
  row.AllReduce(data.data(), data.data(), kCount, MLXCOMM_FLOAT32, MLXCOMM_SUM);
  const std::uint32_t sum = row.size() * (row.size() + 1) / 2;
  const auto expected = static_cast<float>(sum);
  return data.as<float>()[kCount - 1] == expected ? 0 : 1;
}

// Rank r sends q + 1 tokens to each rank q, and so receives r + 1 from each.
int ExchangeAlong(mlxcomm::Group& column, mlxcomm::Connection& connection) {
  std::vector<std::uint64_t> sent(column.size());
  std::iota(sent.begin(), sent.end(), 1);
  const std::vector<std::uint64_t> received(column.size(), column.rank() + 1);
  const std::uint64_t sent_count = std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  const std::uint64_t received_count = column.size() * received[0];
  mlxcomm::Buffer out(connection, sent_count * sizeof(std::int32_t));
  mlxcomm::Buffer in(connection, received_count * sizeof(std::int32_t));
  std::fill_n(out.as<std::int32_t>(), sent_count, static_cast<std::int32_t>(column.rank()));
  mlxcomm::Ticket ticket =
      column.AllToAllVAsync(out.data(), in.data(), sent.data(), received.data(), MLXCOMM_INT32);
  ticket.Wait();  // Other work could be done in the meantime.
  const auto last = static_cast<std::int32_t>(column.size() - 1);
  return in.as<std::int32_t>()[received_count - 1] == last ? 0 : 1;
}

int Run(std::uint32_t columns, bool lose_a_rank) {
  const mlxcomm_place place = mlxcomm::FindPlace();
  const std::uint32_t rank = place.rank;
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  mlxcomm::Connection connection(options);
  mlxcomm::Group world(connection, place);
  world.SetTimeout(60'000'000'000);  // Inherited by the groups below.

  mlxcomm::Group row = *world.Split(static_cast<std::int32_t>(rank / columns), 0, "row");
  mlxcomm::Group column = *world.Split(static_cast<std::int32_t>(rank % columns), 0, "column");
  if (SumAlong(row, connection) != 0 || ExchangeAlong(column, connection) != 0) return 1;
  if (rank == 0) {
    std::printf("%u rows of %u: sums and exchanges are right\n", column.size(), row.size());
  }
  if (!lose_a_rank) return 0;

  // Exit code 0, because mlxcommctl launch ends all ranks if one fails.
  if (rank == place.size - 1) std::_Exit(0);
  try {
    world.Barrier();
    return 1;
  } catch (const mlxcomm::Error& error) {
    if (error.code() != MLXCOMM_RANK_LOST) throw;
    if (rank == 0) std::printf("%s\n", error.what());
  }
  mlxcomm::Group rest = world.Shrink();
  if (rank == 0) std::printf("%s continues with %u ranks\n", rest.name().c_str(), rest.size());
  return SumAlong(rest, connection);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto columns = static_cast<std::uint32_t>(argc > 1 ? std::stoul(argv[1]) : 2);
    return Run(columns, argc > 2 && std::string(argv[2]) == "--lose-a-rank");
  } catch (const mlxcomm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
