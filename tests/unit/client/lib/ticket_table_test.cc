// Entries that come and go at the pace of operations.
#include "client/lib/ticket_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mlxcomm::client::ticket_table_test {
namespace {

using Table = TicketTable<std::string>;

// The ticket of a new entry.
template <typename Value>
std::uint64_t Added(TicketTable<Value>& table) {
  const std::uint64_t ticket = table.NextTicket();
  table.Add(ticket);
  return ticket;
}

TEST(TicketTableTest, HasWhatWasAddedAndNotErased) {
  Table table(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> tickets;
    for (int entry = 0; entry < 4; ++entry) {
      tickets.push_back(Added(table));
      EXPECT_EQ(*table.Find(tickets.back()), "") << "a new one's is as it is made by default";
      *table.Find(tickets.back()) = std::to_string(entry);
    }
    EXPECT_EQ(table.size(), 4u);
    EXPECT_EQ(*table.Find(tickets[0]), "0");
    EXPECT_EQ(*table.Find(tickets[3]), "3");
    for (const std::uint64_t ticket : tickets) table.Erase(ticket);
    EXPECT_EQ(table.size(), 0u);
    EXPECT_EQ(table.Find(tickets[0]), nullptr);
  }
}

// Why: a caller may pass any number; 0 and future tickets belong to no operation.
TEST(TicketTableTest, DoesNotKnowTicketsThatItHasNotGivenOut) {
  Table table(4);
  const std::uint64_t ticket = Added(table);
  for (const std::uint64_t other : {std::uint64_t{0}, ticket + 1, ticket + 8, ticket + 16,
                                    ticket + (std::uint64_t{1} << 40), UINT64_MAX}) {
    EXPECT_EQ(table.Find(other), nullptr) << other;
  }
}

TEST(TicketTableDeathTest, EndsAtATicketThatHasAnEntryAlready) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Table table(4);
  const std::uint64_t ticket = Added(table);
  EXPECT_DEATH(table.Add(ticket), "mlxcomm: bug: expected .*free_.back\\(\\) == place");
}

// Why: an operation may take as long as a million others of its process.
TEST(TicketTableTest, NeverGivesOutTwiceWhatIsHeldForLong) {
  Table table(4);
  const std::uint64_t first = Added(table);
  const std::uint64_t second = Added(table);
  *table.Find(first) = "first";
  *table.Find(second) = "second";
  std::uint64_t last = second;
  for (int other = 0; other < 1000; ++other) {
    const std::uint64_t ticket = Added(table);
    EXPECT_GT(ticket, last);
    last = ticket;
    table.Erase(ticket);
  }
  EXPECT_EQ(*table.Find(first), "first");
  EXPECT_EQ(*table.Find(second), "second");
}

// Why: the next entry must lie where the last one was, in the caches.
TEST(TicketTableTest, AddsTheNextWhereOneWasErased) {
  Table table(8);
  const std::uint64_t ticket = Added(table);
  const std::string* const place = table.Find(ticket);
  table.Erase(ticket);
  EXPECT_EQ(table.Find(Added(table)), place);
}

TEST(TicketTableTest, EndsWhatAnErasedEntryHeld) {
  TicketTable<std::shared_ptr<int>> table(2);
  const auto held = std::make_shared<int>(0);
  const std::uint64_t ticket = Added(table);
  *table.Find(ticket) = held;
  table.Erase(ticket);
  EXPECT_EQ(held.use_count(), 1);
}

// Why: an operation that ends before any other thread sees it needs a number, and no entry.
TEST(TicketTableTest, ATicketThatWasGivenOutMayHaveNoEntry) {
  Table table(2);
  const std::uint64_t ticket = table.NextTicket();
  EXPECT_EQ(table.Find(ticket), nullptr);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_NE(Added(table), ticket);
}

TEST(TicketTableTest, AddsAgainUnderTheTicketThatWasErased) {
  Table table(2);
  const std::uint64_t ticket = Added(table);
  table.Erase(ticket);
  table.Add(ticket) = "told";
  EXPECT_EQ(*table.Find(ticket), "told");
  EXPECT_NE(Added(table), ticket);
}

TEST(TicketTableTest, VisitsEachOnceAndErasesThoseThatItIsAskedTo) {
  Table table(16);
  std::vector<std::uint64_t> tickets;
  for (std::size_t entry = 0; entry < 16; ++entry) {
    tickets.push_back(Added(table));
    *table.Find(tickets.back()) = std::to_string(entry);
  }
  std::multiset<std::string> seen;
  table.EraseWhere([&](const std::string& value) {
    seen.insert(value);
    return std::stoi(value) % 3 == 0;
  });
  EXPECT_EQ(seen.size(), 16u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 16u);
  EXPECT_EQ(table.size(), 10u);
  for (std::size_t entry = 0; entry < 16; ++entry) {
    const std::string* const value = table.Find(tickets[entry]);
    EXPECT_EQ(value != nullptr, entry % 3 != 0) << entry;
    if (value == nullptr) continue;
    EXPECT_EQ(*value, std::to_string(entry));
  }
}

}  // namespace
}  // namespace mlxcomm::client::ticket_table_test
