// Finds rank and job from the launcher's variables. tests/unit/client/python/test_environment.py
// has the variables of each launcher, for the same code.
#include "client/lib/find_place.h"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>

#include "client/lib/mlxcomm.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::client::find_place_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Variables = std::map<std::string, std::string>;

Failure Find(const Variables& variables, Place& place, const PlaceGiven& given = {}) {
  return FindPlace(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
      },
      given, place);
}

Place Found(const Variables& variables) {
  Place place;
  EXPECT_EQ(Find(variables, place).message, "");
  return place;
}

std::string Wrong(const Variables& variables) {
  Place place;
  const Failure failure = Find(variables, place);
  EXPECT_EQ(failure.code, FailureCode::kInvalidArgument);
  return failure.message;
}

TEST(FindPlaceTest, IsAloneWithoutALauncher) {
  const Place place = Found({});
  EXPECT_EQ(place.job, "default");
  EXPECT_EQ(place.size, 1u);
  EXPECT_FALSE(place.launched);
}

// Why: srun starts torchrun, and then Slurm's variables describe torchrun's own place, not that of
// its workers.
TEST(FindPlaceTest, IsWhatTheInnermostLauncherSays) {
  const Variables slurm = {
      {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "8"}, {"SLURM_STEP_ID", "0"}};
  EXPECT_EQ(Found(slurm).job, "slurm-8,0");
  Variables both = slurm;
  both.insert(
      {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "x"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(Found(both).rank, 5u);
  EXPECT_EQ(Found(both).job, "torchrun-x,1");
  both.insert({{"MLX_RANK", "0"}, {"MLX_WORLD_SIZE", "1"}});
  EXPECT_EQ(Found(both).size, 1u);
}

// Why: `sbatch -n 4` gives the script itself SLURM_PROCID=0 and SLURM_NTASKS=4; it would wait for
// three ranks that are never started.
TEST(FindPlaceTest, IsAloneInABatchScript) {
  EXPECT_FALSE(
      Found({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "8"}}).launched);
  EXPECT_FALSE(Found({{"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_JOB_ID", "8"},
                      {"SLURM_STEP_ID", "4294967290"}})
                   .launched);
}

// Why: rank 0 of one launch and rank 1 of another would form a world unnoticed.
TEST(FindPlaceTest, AsksForAJobWhereTheLauncherTellsLaunchesNotApart) {
  const Variables hydra = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_FD", "9"}};
  EXPECT_THAT(Wrong(hydra), HasSubstr("MLXCOMM_JOB"));
  Variables named = hydra;
  named["MLXCOMM_JOB"] = "mine";
  EXPECT_EQ(Found(named).job, "mine");
  EXPECT_EQ(Found({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).job, "default")
      << "alone: nobody to cross";
}

TEST(FindPlaceTest, NamesLongLaunchesByANumber) {
  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"PMIX_NAMESPACE", std::string(300, 'x')}};
  const std::string job = Found(mpi).job;
  EXPECT_EQ(job.size(), std::string("mpirun-").size() + 16);
  Variables other = mpi;
  other["PMIX_NAMESPACE"] += "y";
  EXPECT_NE(Found(other).job, job);
}

// Why: exo writes files that differ by rank: its own entry is the wildcard address, and a rank that
// is not a neighbour has an address for documentation. Ranks of one launch waited for each other in
// three jobs.
TEST(FindPlaceTest, IsInOneJobWhereHostFilesDifferByRank) {
  const TemporaryFolder folder;
  const auto job = [&](int rank, const std::string& hosts) {
    const std::string path = folder.path() + "/" + std::to_string(rank);
    std::ofstream(path) << hosts;
    return Found({{"MLX_RANK", std::to_string(rank)}, {"MLX_HOSTFILE", path}}).job;
  };
  const std::string first = job(0, R"(["0.0.0.0:5000", "10.0.0.2:5000", "198.51.100.1:0"])");
  EXPECT_EQ(first, job(1, R"([["10.0.0.1:5000"], ["0.0.0.0:5000"], ["10.0.0.3:5000"]])"));
  EXPECT_EQ(first, job(2, R"(["198.51.100.1:0", "10.0.1.2:5000", "[::]:5000"])"));
  EXPECT_NE(first, job(0, R"(["0.0.0.0:5001", "10.0.0.2:5001", "198.51.100.1:0"])"))
      << "another launch";
  EXPECT_NE(first, job(0, R"(["0.0.0.0:5000", "10.0.0.2:5000"])")) << "of other size";
  for (const char* const own : {"localhost", "127.0.0.1", "127.0.1.1", "::1", "[::1]"}) {
    const std::string entry = std::string(own) + ":5001";
    EXPECT_EQ(job(0, R"(["0.0.0.0:5000", "10.0.0.2:5001"])"),
              job(1, R"(["10.0.0.1:5000", ")" + entry + R"("])"))
        << own;
  }
  EXPECT_EQ(job(0, R"(["10.0.0.1:5000", "10.0.0.2:5000"])"),
            job(1, R"([["10.0.0.1:5000"], ["10.0.0.2:5000"]])"));
  EXPECT_NE(job(0, R"(["10.0.0.1:5000", "10.0.0.2:5000"])"),
            job(1, R"(["10.0.0.1:5000", "10.0.0.3:5000"])"))
      << "files that are alike on all ranks tell launches apart by all that they hold";
}

TEST(FindPlaceTest, IsInOneJobWhereCoordinatorsDifferByRank) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/devices";
  std::ofstream(path) << R"([[null, "rdma_en5"], ["rdma_en5", null]])";
  const auto job = [&](const char* rank, const char* coordinator) {
    return Found({{"MLX_RANK", rank},
                  {"MLX_IBV_DEVICES", path},
                  {"MLX_JACCL_COORDINATOR", coordinator}})
        .job;
  };
  EXPECT_EQ(job("0", "0.0.0.0:7777"), job("1", "10.0.0.1:7777"));
  EXPECT_NE(job("0", "0.0.0.0:7777"), job("1", "10.0.0.1:7778"));
  const std::string first = job("0", "10.0.0.1:7777");
  std::ofstream(path) << R"([[null, "rdma_en4"], ["rdma_en4", null]])";
  EXPECT_EQ(first, job("1", "10.0.0.1:7777")) << "each machine has its own device in all cells";
}

// With these the daemons see which variables led to two names for one launch.
TEST(FindPlaceTest, SaysWhatTheNameFollowsFromAndMarksAnAddressOfItsOwn) {
  const auto named_by = [](const std::string& address, const std::string& port) {
    return Found({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_ADDR", address},
                  {"MASTER_PORT", port}})
        .named_by;
  };
  const std::string other = named_by("203.0.113.7", "1");
  EXPECT_THAT(other, testing::MatchesRegex("MASTER_ADDR=[0-9a-f]{16} MASTER_PORT=[0-9a-f]{16}"));
  EXPECT_NE(other, named_by("203.0.113.8", "1"));
  EXPECT_NE(other, named_by("203.0.113.7", "2"));
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  const std::string by_name = named_by(name.data(), "1");
  const std::string digest = by_name.substr(std::string("MASTER_ADDR=").size(), 16);
  for (const char* const own : {"localhost", "127.0.0.1", "::1", "0.0.0.0"}) {
    EXPECT_THAT(named_by(own, "1"), StartsWith("MASTER_ADDR=*")) << own;
    EXPECT_THAT(named_by(own, "1"), HasSubstr("*" + digest + "*")) << own;
    EXPECT_LE(named_by(own, "1").size(), 1000u);
  }
  EXPECT_EQ(Found({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MLXCOMM_JOB", "mine"}}).named_by, "");
}

TEST(FindPlaceTest, ReadsJacclsOwnNamesFirst) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/devices";
  std::ofstream(path) << R"([[null, "rdma_en5"], ["rdma_en5", null]])";
  const Place place = Found({{"MLX_RANK", "0"},
                             {"JACCL_RANK", "1"},
                             {"JACCL_IBV_DEVICES", path},
                             {"JACCL_COORDINATOR", "10.0.0.1:7777"}});
  EXPECT_EQ(place.rank, 1u);
  EXPECT_EQ(place.size, 2u);
  EXPECT_EQ(place.job_from, "JACCL_COORDINATOR");
  EXPECT_THAT(Wrong({{"JACCL_RANK", "one"}, {"JACCL_IBV_DEVICES", path}}),
              HasSubstr("JACCL_RANK=\"one\""));
}

// Why: it would train alone with wrong sums, and nothing would report it.
TEST(FindPlaceTest, ASizeWithoutARankIsNoGroupOfOne) {
  EXPECT_THAT(Wrong({{"MLX_WORLD_SIZE", "2"}}), HasSubstr("MLX_RANK is not"));
  EXPECT_EQ(Found({{"MLX_WORLD_SIZE", "1"}}).size, 1u);
}

TEST(FindPlaceTest, TellsWhatIsWrongWithAHostFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/hosts.json";
  std::ofstream(path) << "[[\"10.0.0.1:5000\"],\n oops]";
  EXPECT_THAT(Wrong({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}}),
              testing::AllOf(HasSubstr("MLX_HOSTFILE"), HasSubstr(path), HasSubstr("line 2")));
  std::remove(path.c_str());
  EXPECT_THAT(Wrong({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}}), HasSubstr("cannot be read"));
}

// Why: the shell may have yesterday's file, and a world that waits for ranks that are never
// started.
TEST(FindPlaceTest, NamesBothWhereASizeAndAFileContradict) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/three.json";
  std::ofstream(path) << R"([["10.0.0.1:1"], ["10.0.0.2:1"], ["10.0.0.3:1"]])";
  const Variables agree = {{"MLX_RANK", "1"}, {"MLX_WORLD_SIZE", "3"}, {"MLX_HOSTFILE", path}};
  EXPECT_EQ(Found(agree).size, 3u);
  Variables two = agree;
  two["MLX_WORLD_SIZE"] = "2";
  EXPECT_EQ(Wrong(two), "MLX_WORLD_SIZE=\"2\" says 2 ranks, but the file of MLX_HOSTFILE=\"" +
                            path + "\" has 3: set the one that is meant, and unset the other");
  const std::string devices = folder.path() + "/devices.json";
  std::ofstream(devices) << "[[null, \"rdma_en2\"], [\"rdma_en2\", null]]";
  EXPECT_THAT(
      Wrong({{"MLX_RANK", "1"}, {"MLX_HOSTFILE", path}, {"MLX_IBV_DEVICES", devices}}),
      testing::AllOf(HasSubstr("MLX_HOSTFILE"), HasSubstr("MLX_IBV_DEVICES"), HasSubstr("has 2")));
  two["MLX_HOSTFILE"] = path + "-that-is-not-there";
  two["MLXCOMM_JOB"] = "named";
  EXPECT_EQ(Found(two).size, 2u) << "nobody needs it";
  std::remove(path.c_str());
  std::remove(devices.c_str());
}

// Why: `mlx.launch --backend jaccl` sets no size; only the matrix of devices, a separate file on
// each rank, shows the number of ranks.
TEST(FindPlaceTest, IsARankOfTheMatrixOfDevices) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/jaccl";
  const std::string three = R"([[null, "rdma_en2", ["rdma_en3", "rdma_en4"]],
                                ["rdma_en2", null, null], ["rdma_en3", null, null]])";
  std::string job;
  for (const char* const rank : {"0", "1", "2"}) {
    std::ofstream(path + rank) << three;
    const Place place = Found({{"MLX_RANK", rank},
                               {"MLX_JACCL_COORDINATOR", "192.0.2.1:32323"},
                               {"MLX_IBV_DEVICES", path + rank}});
    EXPECT_EQ(std::to_string(place.rank), rank);
    EXPECT_EQ(place.size, 3u);
    if (job.empty()) job = place.job;
    EXPECT_EQ(place.job, job) << "or they would not meet";
    std::remove((path + rank).c_str());
  }
  EXPECT_NE(job, "default");
  std::ofstream(path) << "";
  EXPECT_EQ(Found({{"MLX_RANK", "0"}, {"MLX_IBV_DEVICES", path}}).size, 1u) << "a single host's";
  std::remove(path.c_str());
}

TEST(FindPlaceTest, NamesTheEntryOfTheMatrixThatIsWrong) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/matrix.json";
  const auto wrong = [&path](const std::string& matrix) {
    std::ofstream(path) << matrix;
    return Wrong({{"MLX_RANK", "1"}, {"MLX_IBV_DEVICES", path}});
  };
  EXPECT_EQ(wrong(R"([[null, "rdma_en2"], ["rdma_en2"]])"),
            "MLX_IBV_DEVICES=\"" + path +
                "\": [1]: expected a list of 2, an entry for each rank, got "
                "[\"rdma_en2\"]");
  EXPECT_THAT(wrong(R"([[null, "rdma_en2"], ["rdma_en2", "rdma_en3"]])"),
              HasSubstr("[1][1]: expected null, because no device leads from a rank to itself"));
  EXPECT_THAT(wrong("[[null, 5], [null, null]]"),
              HasSubstr("[0][1]: expected a device, a list of devices, or null, got 5"));
  EXPECT_THAT(wrong(R"([[null, []], ["rdma_en2", null]])"),
              HasSubstr("[0][1]: expected a device, a list of devices, or null, got []"));
  EXPECT_THAT(wrong(R"([["10.0.0.1:5000"], ["10.0.0.2:5000"]])"),
              HasSubstr("[0]: expected a list of 2"));
  EXPECT_THAT(Wrong({{"MLX_RANK", "1"}, {"MLX_IBV_DEVICES", path + "-none"}}),
              HasSubstr("cannot be read"));
  std::remove(path.c_str());
}

TEST(FindPlaceTest, NamesTheVariableThatIsWrong) {
  EXPECT_EQ(Wrong({{"MLX_RANK", "1"}}), "MLX_RANK is set but MLX_WORLD_SIZE is not: set both");
  EXPECT_THAT(Wrong({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n"}}), HasSubstr("MLX_WORLD_SIZE"));
  for (const char* const rank : {"-1", "0x1", "", "99999999999999999999"}) {
    EXPECT_THAT(Wrong({{"PMI_RANK", rank}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK"));
  }
  EXPECT_THAT(Wrong({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
              HasSubstr("PMI_RANK: expected a rank below the size 2, got 2"));
}

// The C interface: the process's own environment, another one, and arguments that override both.
TEST(FindPlaceTest, IsTheSameInC) {
  mlxcomm_place place;
  mlxcomm_error error;
  mlxcomm_place_options options;
  mlxcomm_place_options_init(&options);
  options.lookup = [](void*, const char* name) -> const char* {
    return std::string(name) == "MLX_RANK"         ? "1"
           : std::string(name) == "MLX_WORLD_SIZE" ? "3"
                                                   : nullptr;
  };
  ASSERT_EQ(mlxcomm_find_place(&options, &place, &error), MLXCOMM_OK) << error.message;
  EXPECT_STREQ(place.job, "default");
  EXPECT_EQ(place.rank, 1u);
  EXPECT_EQ(place.size, 3u);
  options.job = "named";
  options.rank = 4;
  options.size = 5;
  ASSERT_EQ(mlxcomm_find_place(&options, &place, &error), MLXCOMM_OK);
  EXPECT_STREQ(place.job, "named");
  EXPECT_EQ(place.rank, 4u);
  options.size = 4;
  EXPECT_EQ(mlxcomm_find_place(&options, &place, &error), MLXCOMM_INVALID_ARGUMENT);
  EXPECT_EQ(mlxcomm_find_place(nullptr, nullptr, &error), MLXCOMM_INVALID_ARGUMENT);
  options.struct_size = 1;
  EXPECT_EQ(mlxcomm_find_place(&options, &place, &error), MLXCOMM_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mlxcomm::client::find_place_test
