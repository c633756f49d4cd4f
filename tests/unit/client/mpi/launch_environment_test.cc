#include "client/mpi/launch_environment.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

namespace mlxcomm::mpi {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Variables = std::map<std::string, std::string>;

Place In(const Variables& variables) {
  return FindPlace([&variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

class File {
 public:
  explicit File(const std::string& text) {
    path_ = testing::TempDir() + "mlxcomm-hosts-" + std::to_string(::getpid()) + "-" +
            std::to_string(++made_);
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  static inline int made_ = 0;
  std::string path_;
};

TEST(LaunchEnvironmentTest, IsAloneWithoutALauncher) {
  const Place place = In({{"HOME", "x"}, {"WORLD_SIZE", "8"}});
  EXPECT_EQ(place.rank, 0U);
  EXPECT_EQ(place.size, 1U);
}

TEST(LaunchEnvironmentTest, KnowsEachLaunchersVariables) {
  for (const auto& [rank, size] :
       {std::pair{"MLX_RANK", "MLX_WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}, {"RANK", "WORLD_SIZE"}}) {
    const Place place = In({{rank, "2"}, {size, "4"}});
    EXPECT_EQ(place.rank, 2U) << rank;
    EXPECT_EQ(place.size, 4U) << rank;
    EXPECT_THAT([rank = rank] { In({{rank, "2"}}); },
                ThrowsMessage<std::runtime_error>(HasSubstr("set both")));
  }
}

// Why: mlx.launch says the size by a file, whose copies lie at other paths on each host and
// may be formatted otherwise.
TEST(LaunchEnvironmentTest, CountsTheHostsOfAFileAndNamesTheJobByItsContent) {
  const File list(R"([["10.0.0.1:5000"], ["10.0.0.2:5000"]])");
  const File same("[\n [\"10.0.0.1:5000\"],\n [\"10.0.0.2:5000\"] ]\n");
  const File other(R"([["10.0.0.1:5001"], ["10.0.0.2:5001"]])");
  const File object(R"({"backend": "ring", "hosts": [{"ssh": "a"}, {"ssh": "b"}, {"ssh": "c"}]})");
  const auto of = [](const File& file) { return In({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", file.path()}}); };
  EXPECT_EQ(of(list).size, 2U);
  EXPECT_EQ(of(object).size, 3U);
  EXPECT_EQ(of(list).job, of(same).job);
  EXPECT_NE(of(list).job, of(other).job);
}

TEST(LaunchEnvironmentTest, TakesAnEmptyFileForOneRank) {
  const File empty(" \n");
  EXPECT_EQ(In({{"MLX_RANK", "0"}, {"MLX_HOSTFILE", empty.path()}}).size, 1U);
}

TEST(LaunchEnvironmentTest, TellsLaunchesApart) {
  const auto slurm = [](const char* step) {
    return In({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", step}});
  };
  EXPECT_EQ(slurm("0").job, slurm("0").job);
  EXPECT_NE(slurm("0").job, slurm("1").job);
  EXPECT_EQ(In({{"MLX_RANK", "0"}, {"MLX_WORLD_SIZE", "2"}, {"MLXCOMM_JOB", "mine"}}).job, "mine");
}

TEST(LaunchEnvironmentTest, NamesTheVariableThatIsWrong) {
  const File garbage("{not json");
  const File nobody("[]");
  const Variables wrong[] = {
      {{"MLX_RANK", "-1"}, {"MLX_WORLD_SIZE", "2"}},
      {{"MLX_RANK", "0x1"}, {"MLX_WORLD_SIZE", "2"}},
      {{"MLX_RANK", ""}, {"MLX_WORLD_SIZE", "2"}},
      {{"MLX_RANK", "99999999999999999999"}, {"MLX_WORLD_SIZE", "2"}},
      {{"MLX_RANK", "2"}, {"MLX_WORLD_SIZE", "2"}},
  };
  for (const Variables& variables : wrong) {
    EXPECT_THAT([&] { In(variables); }, ThrowsMessage<std::runtime_error>(HasSubstr("MLX_RANK=")));
  }
  EXPECT_THAT([] { In({{"RANK", "0"}, {"WORLD_SIZE", "two"}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("WORLD_SIZE=two")));
  for (const std::string& path : {garbage.path(), nobody.path(), std::string("/nowhere/hosts")}) {
    EXPECT_THAT([&] { In({{"MLX_RANK", "0"}, {"MLX_HOSTFILE", path}}); },
                ThrowsMessage<std::runtime_error>(HasSubstr("MLX_HOSTFILE=" + path)));
  }
}

}  // namespace
}  // namespace mlxcomm::mpi
