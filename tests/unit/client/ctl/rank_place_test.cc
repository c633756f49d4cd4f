// Which rank a process is, as launchers say it.
#include "client/ctl/rank_place.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace mlxcomm::ctl {
namespace {

std::optional<RankPlace> Find(const std::map<std::string, std::string>& variables,
                              std::string& error) {
  return FindPlace(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      error);
}

TEST(RankPlaceTest, IsWhatTheFirstLauncherSays) {
  std::string error;
  const auto place = Find({{"MLX_RANK", "1"}, {"MLX_WORLD_SIZE", "3"}, {"RANK", "0"},
                           {"WORLD_SIZE", "9"}}, error);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1u);
  EXPECT_EQ(place->size, 3u);
  EXPECT_EQ(Find({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}}, error)->rank, 2u);
  EXPECT_FALSE(Find({}, error));
  EXPECT_EQ(error, "") << "nobody said anything: no mistake";
}

TEST(RankPlaceTest, CountsTheRanksInMlxsHostFile) {
  const std::string path = testing::TempDir() + "/rank_place_hosts.json";
  std::ofstream(path) << R"([["10.0.0.1:5000"], ["10.0.0.2:5000"]])";
  std::string error;
  EXPECT_EQ(Find({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}}, error)->size, 2u);
  std::ofstream(path) << R"({"hosts": [1, 2, 3]})";
  EXPECT_EQ(Find({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}}, error)->size, 3u);
  std::ofstream(path) << "no JSON";
  EXPECT_FALSE(Find({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}}, error));
  EXPECT_NE(error.find("MLX_HOSTFILE"), std::string::npos) << error;
  std::remove(path.c_str());
}

TEST(RankPlaceTest, NamesTheVariableThatIsWrong) {
  std::string error;
  EXPECT_FALSE(Find({{"MLX_RANK", "1"}}, error));
  EXPECT_EQ(error, "MLX_RANK is set but MLX_WORLD_SIZE is not: set both");
  for (const auto& [rank, size] : {std::pair{"2", "2"}, {"-1", "2"}, {"0x1", "2"}, {"", "2"}}) {
    error.clear();
    EXPECT_FALSE(Find({{"PMI_RANK", rank}, {"PMI_SIZE", size}}, error));
    EXPECT_NE(error.find("PMI_SIZE"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace mlxcomm::ctl
