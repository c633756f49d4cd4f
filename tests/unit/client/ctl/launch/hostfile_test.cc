// Host files of MLX and MPI, and host lists.
#include "client/ctl/launch/hostfile.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

namespace mlxcomm::ctl::hostfile_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Hostfile ParsedHostfile(const std::string& text) {
  Hostfile file;
  EXPECT_EQ(ParseHostfile("hosts", text, file).message, "");
  return file;
}

std::string WrongHostfile(const std::string& text) {
  Hostfile file;
  const Failure failure = ParseHostfile("hosts", text, file);
  EXPECT_EQ(failure.code, FailureCode::kInvalidArgument) << text;
  return failure.message;
}

std::string Repeated(const std::string& piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::vector<std::string> NamesIn(const Hostfile& file) {
  std::vector<std::string> names;
  for (const HostEntry& host : file.hosts) names.push_back(host.name);
  return names;
}

TEST(HostfileTest, ReadsMlxsObject) {
  const Hostfile file = ParsedHostfile(R"({
    "backend": "jaccl", "envs": ["MLX_METAL_FAST_SYNCH=1"],
    "hosts": [
      {"ssh": "mac-1", "ips": ["10.0.0.1", "fe80::1%en2"], "rdma": [null, "rdma_en2"]},
      {"ssh": "me@mac-2", "ips": [], "rdma": [["rdma_en2", "rdma_en3"], null]}]})");
  EXPECT_THAT(file.envs, ElementsAre("MLX_METAL_FAST_SYNCH=1"));
  EXPECT_THAT(NamesIn(file), ElementsAre("mac-1", "me@mac-2"));
}

TEST(HostfileTest, ReadsMlxsListWithMissingFields) {
  const Hostfile file = ParsedHostfile(R"(  [{"ssh": "a"}, {"ssh": "b", "ips": ["::1"]}])");
  EXPECT_THAT(NamesIn(file), ElementsAre("a", "b"));
  EXPECT_EQ(file.hosts[0].slots, 1u);
}

// Why: files that mlx.launch would refuse were refused here, too, for fields that launch does not
// use.
TEST(HostfileTest, IgnoresMlxsOtherFields) {
  const Hostfile file = ParsedHostfile(R"({"backend": 7, "hosts": [
      {"ssh": "a", "ips": "10.0.0.1", "rdma": [3], "slots": 2}, {"ssh": "b", "rdma": [null]}]})");
  EXPECT_THAT(NamesIn(file), ElementsAre("a", "b"));
  EXPECT_EQ(file.hosts[0].slots, 2u);
}

TEST(HostfileTest, ReadsMpisLines) {
  const Hostfile file = ParsedHostfile(
      "# our cluster\n"
      "\n"
      "mac-1 slots=2\n"
      "mac-2\tslots = 4 max_slots=8   # the big one\r\n"
      "mac-3 user=joe max-slots=2\n"
      "mac-4:3\n"
      "10.0.0.7\n"
      "fe80::1\n");
  EXPECT_THAT(NamesIn(file),
              ElementsAre("mac-1", "mac-2", "joe@mac-3", "mac-4", "10.0.0.7", "fe80::1"));
  std::vector<unsigned> slots;
  for (const HostEntry& host : file.hosts) slots.push_back(host.slots);
  EXPECT_THAT(slots, ElementsAre(2, 4, 1, 3, 1, 1));
}

// Why: files of other launchers were refused, and a byte order mark became part of a name.
TEST(HostfileTest, IgnoresSettingsOfOtherLaunchers) {
  const Hostfile file = ParsedHostfile(
      "\xef\xbb\xbf"
      "10.0.0.1:4 binding=numa ifname=en5\r\n"
      "[fe80::1%en5] slots=auto\n"
      "ada@mac-2 slots=2 port=2222 sockets=1 binding=none\n");
  EXPECT_THAT(NamesIn(file), ElementsAre("10.0.0.1", "fe80::1%en5", "ada@mac-2"));
  EXPECT_EQ(file.hosts[0].slots, 4u);
  EXPECT_EQ(file.hosts[1].slots, 1u);
  EXPECT_EQ(file.note,
            "ignored settings: binding, ifname, port, slots=auto, "
            "sockets");
  EXPECT_THAT(NamesIn(ParsedHostfile("[2001:db8::1]\n")), ElementsAre("2001:db8::1"));
  EXPECT_THAT(NamesIn(ParsedHostfile("\xef\xbb\xbf[{\"ssh\": \"mac-1\"}]")), ElementsAre("mac-1"));
  EXPECT_THAT(WrongHostfile("mac-1\n^mac-2\n"), StartsWith("hosts:2: \"^mac-2\" excludes a host"));
  EXPECT_THAT(WrongHostfile("[fe80::1]x\n"), HasSubstr("expected an address"));
  EXPECT_THAT(WrongHostfile("mac-1 exclusive\n"), HasSubstr("expected slots=N"));
}

// Why: in a file it meant two ranks, but after --hosts it was an invalid name.
TEST(HostfileTest, ReadsACountAfterAHostInAList) {
  Hostfile file;
  ASSERT_TRUE(ParseHostList("--hosts", "a:2,b,fe80::1", file).ok());
  EXPECT_THAT(NamesIn(file), ElementsAre("a", "b", "fe80::1"));
  EXPECT_EQ(file.hosts[0].slots, 2u);
  EXPECT_THAT(ParseHostList("--hosts", "a:x", file).message,
              StartsWith("--hosts: expected HOST:N"));
}

// Why: removing blanks one by one took quadratic time: hours for this many blanks before the sign,
// minutes after it.
TEST(HostfileTest, ReadsManyBlanksAroundASign) {
  const std::string before(2'000'000, ' ');
  const std::string behind(8'000'000, ' ');
  const Hostfile file = ParsedHostfile("mac-1 slots" + before + "=" + behind + "2\n");
  ASSERT_THAT(NamesIn(file), ElementsAre("mac-1"));
  EXPECT_EQ(file.hosts[0].slots, 2u);
}

TEST(HostfileTest, ExpandsRanges) {
  EXPECT_THAT(NamesIn(ParsedHostfile("node[08-10,3]-ib slots=2\n")),
              ElementsAre("node08-ib", "node09-ib", "node10-ib", "node3-ib"));
  EXPECT_THAT(NamesIn(ParsedHostfile("r[1-2]n[1-2]\n")),
              ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  Hostfile file;
  EXPECT_TRUE(ParseHostList("--hosts", "a,b[1-2,5],me@c", file).ok());
  EXPECT_THAT(NamesIn(file), ElementsAre("a", "b1", "b2", "b5", "me@c"));
}

// Why: the next number overflows 32 bits to 0, so such a range never ended.
TEST(HostfileTest, ExpandsTheLargestNumber) {
  EXPECT_THAT(NamesIn(ParsedHostfile("n[4294967294-4294967295]\n")),
              ElementsAre("n4294967294", "n4294967295"));
}

TEST(HostfileTest, ExpandsUpToItsBounds) {
  EXPECT_EQ(ParsedHostfile("n[1-64]m[1-64]\n").hosts.size(), kHostsMax);
  EXPECT_THAT(WrongHostfile("n[1-64]m[1-64]o[1-2]\n"), HasSubstr("at most 4096"));
  EXPECT_THAT(WrongHostfile("n[1-4096,1]\n"), HasSubstr("at most 4096"));
  EXPECT_THAT(NamesIn(ParsedHostfile("n" + Repeated("[1]", 254))),
              ElementsAre("n" + std::string(254, '1')));
  EXPECT_THAT(WrongHostfile("n" + Repeated("[1]", 255)), HasSubstr("of at most 255 bytes"));
  EXPECT_THAT(WrongHostfile("n[]"), HasSubstr("expected a host"));
}

// Why: a short text, even in --hosts, could expand to more names than fit into memory, and each
// bracket used stack.
// How: many names, long names, or many brackets; each would need 30 GB or overflow the stack.
TEST(HostfileTest, RefusesRangesThatWouldExhaustMemory) {
  for (const std::string& text :
       {"n" + Repeated("[1]", 50'000),
        "n[" + Repeated("1-4096,", 2000) + "1]" + std::string(16'000, 'x'),
        "n[" + std::string(8'000'000, '0') + "-4095]"}) {
    const std::string message = WrongHostfile(text);
    EXPECT_THAT(message, StartsWith("hosts:1: expected a host"));
    EXPECT_LT(message.size(), 500u) << "not all of it is said again";
    Hostfile file;
    EXPECT_THAT(ParseHostList("--hosts", "a," + text, file).message,
                StartsWith("--hosts: expected a host"));
  }
}

TEST(HostfileTest, ReportsLineOrFieldAndWhatIsExpected) {
  EXPECT_THAT(WrongHostfile("mac-1\nmac-2 slots=two\n"),
              StartsWith("hosts:2: slots: expected 0 to"));
  EXPECT_THAT(WrongHostfile("mac-1 slots=1025\n"), HasSubstr("expected 0 to 1024"));
  EXPECT_THAT(WrongHostfile("mac-1:1025\n"), HasSubstr("N at most 1024"));
  EXPECT_THAT(WrongHostfile("[{\"ssh\": \"a\", \"slots\": 1025}]"),
              HasSubstr("expected 0 to 1024"));
  EXPECT_THAT(WrongHostfile("mac-1 slots=4 max_slots=2\n"),
              HasSubstr("slots=4 is more than max_slots=2"));
  EXPECT_THAT(WrongHostfile("\n\n-oProxyCommand=x\n"), StartsWith("hosts:3: expected a host"));
  EXPECT_THAT(WrongHostfile("node[3-1]\n"), StartsWith("hosts:1: expected a host"));
  EXPECT_THAT(WrongHostfile("node[1-99999999]\n"), StartsWith("hosts:1: expected a host"));
  EXPECT_THAT(WrongHostfile("node[0-1023]-[0-1023]\n"), StartsWith("hosts:1: expected a host"));
  EXPECT_THAT(WrongHostfile("# nothing\n"), HasSubstr("expected hosts"));
  EXPECT_THAT(WrongHostfile("{\"hosts\":\n [{\"ssh\" \"a\"}]}"), HasSubstr("line 2"));
  EXPECT_THAT(WrongHostfile("[{\"ssh\": \"a\", \"slots\": 1e999}]"), HasSubstr("number overflow"));
  EXPECT_LT(WrongHostfile("[" + std::string(100'000, '1') + "]").size(), 600u);
  EXPECT_THAT(WrongHostfile("{\"backend\": \"ring\"}"), HasSubstr("expected \"hosts\""));
  EXPECT_THAT(WrongHostfile("[{\"ips\": []}]"), HasSubstr("hosts[0]: expected \"ssh\""));
  EXPECT_THAT(WrongHostfile("[{\"ssh\": \"a\"}, {\"ssh\": 7}]"),
              HasSubstr("hosts[1].ssh: expected a text, got 7"));
  EXPECT_THAT(WrongHostfile("[{\"ssh\": \"a\", \"slots\": -1}]"), HasSubstr("hosts[0].slots"));
  EXPECT_THAT(WrongHostfile("[{\"ssh\": \"-oProxyCommand=x\"}]"),
              HasSubstr("hosts[0].ssh: expected a host"));
  EXPECT_THAT(WrongHostfile(R"({"envs": "A=1", "hosts": []})"), HasSubstr("envs: expected a list"));
  EXPECT_THAT(WrongHostfile(R"({"envs": ["A=1", 2], "hosts": []})"), HasSubstr("envs[1]"));
  EXPECT_THAT(WrongHostfile(R"([["10.0.0.1:5000"], ["10.0.0.2:5000"]])"),
              HasSubstr("mlx.launch made for its ranks"));
}

// Why: recursive functions copy and print nested data, which overflowed mlxcommctl's stack even in
// unused fields.
TEST(HostfileTest, RefusesDeepNesting) {
  constexpr std::size_t kDeep = 1'000'000;
  const std::string lists = Repeated("[", kDeep) + Repeated("]", kDeep);
  const std::string objects = Repeated("{\"y\":", kDeep) + "1" + Repeated("}", kDeep);
  for (const std::string& text :
       {lists, "[{\"ssh\": " + lists + "}]", "[{\"ssh\": \"a\", \"x\": " + lists + "}]",
        "{\"hosts\": [{\"ssh\": \"a\", \"x\": " + objects + "}]}"}) {
    EXPECT_THAT(WrongHostfile(text),
                StartsWith("hosts: expected lists and objects nested at most 16 deep"));
  }
  const auto nested = [](std::size_t depth) {  // They are inside two more.
    return "[{\"ssh\": \"a\", \"x\": " + Repeated("[", depth) + Repeated("]", depth) + "}]";
  };
  EXPECT_THAT(NamesIn(ParsedHostfile(nested(14))), ElementsAre("a"));
  EXPECT_THAT(WrongHostfile(nested(15)), HasSubstr("got 17: remove the deeper fields"));
}

TEST(HostfileTest, IgnoresBracketsInTexts) {
  const std::string brackets = Repeated("[{", 20);
  const Hostfile file = ParsedHostfile("{\"envs\": [\"A=" + brackets + "\", \"B=\\\"" + brackets +
                                       "\\\\\"], \"hosts\": [{\"ssh\": \"a\"}]}");
  EXPECT_THAT(file.envs, ElementsAre("A=" + brackets, "B=\"" + brackets + "\\"));
  EXPECT_EQ(
      ParsedHostfile("[" + Repeated("{\"ssh\": \"a\"},", 20) + "{\"ssh\": \"b\"}]").hosts.size(),
      21u)
      << "nor what stands one beside the other";
}

// Why: ssh takes a name with a leading hyphen for an option, and may pass names to a shell; node
// names are untrusted.
TEST(HostfileTest, RejectsInvalidHostNames) {
  for (const char* const name :
       {"mac-1", "mac-1.local", "ada@10.0.0.1", "STUDIO\\ada@mac-1", "fe80::1%en2"}) {
    EXPECT_TRUE(IsHostName(name)) << name;
  }
  for (const char* const name :
       {"", "-oProxyCommand=x", "ada@-oProxyCommand=x", "-l@mac-1", "ada@", "@mac-1", "mac 1",
        "mac;id", "$(id)", "`id`", "a|b", "a&b", "a>b", "mac\\1", "mac\n1", "../mac", "\xff"}) {
    EXPECT_FALSE(IsHostName(name)) << name;
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::hostfile_test
