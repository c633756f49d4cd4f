#include "client/ctl/service/service_plan.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "client/ctl/service/service_files.h"

namespace mlxcomm::ctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ServiceFacts Machine(ServiceManager manager) {
  ServiceFacts facts;
  facts.manager = manager;
  facts.is_superuser = true;
  facts.has_manager = true;
  facts.was_booted = true;
  facts.program = "/venv/bin/mlxcommd";
  facts.program_version = "0.1.0";
  facts.default_config = "# as mlxcommd --print-config prints it\n";
  facts.control = "/venv/bin/mlxcommctl";
  facts.socket = "/var/run/mlxcommd/mlxcommd.sock";
  return facts;
}

ServiceFacts Installed(ServiceManager manager) {
  ServiceFacts facts = Machine(manager);
  facts.is_installed = facts.is_loaded = facts.is_running = facts.socket_answers = true;
  facts.config = "";
  for (const std::string& path : RemovablePaths(manager)) {
    const bool is_left_over = path.ends_with(".new") || path.ends_with(".old");
    if (!is_left_over) facts.there.insert(path);
  }
  return facts;
}

std::vector<std::string> Lines(const ServicePlan& plan) {
  std::vector<std::string> all;
  for (const ServiceStep& step : plan.steps) all.push_back(DescribeStep(step));
  return all;
}

TEST(ServicePlanTest, InstallsOnSystemd) {
  const ServicePlan plan = PlanInstall(Machine(ServiceManager::kSystemd), {});
  EXPECT_THAT(plan.problems, IsEmpty());
  EXPECT_THAT(
      Lines(plan),
      ElementsAre("create the folder /usr/local/bin if it is missing",
                  "create the folder /etc/mlxcommd if it is missing",
                  "copy /venv/bin/mlxcommd to /usr/local/bin/.mlxcommd.new",
                  "copy /venv/bin/mlxcommctl to /usr/local/bin/.mlxcommctl.new",
                  "run /usr/local/bin/.mlxcommd.new --version",
                  "run /usr/local/bin/.mlxcommctl.new --version",
                  "move /usr/local/bin/.mlxcommd.new to /usr/local/bin/mlxcommd",
                  "move /usr/local/bin/.mlxcommctl.new to /usr/local/bin/mlxcommctl",
                  "write /etc/mlxcommd/mlxcommd.textproto",
                  "create the folder /etc/systemd/system if it is missing",
                  "write /etc/systemd/system/mlxcommd.service",
                  "create the folder /etc/logrotate.d if it is missing",
                  "write /etc/logrotate.d/mlxcommd", "run systemctl daemon-reload",
                  "run systemctl enable mlxcommd.service", "run systemctl restart mlxcommd.service",
                  "wait until mlxcommd answers at /var/run/mlxcommd/mlxcommd.sock"));
}

std::size_t PlaceOf(const ServicePlan& plan, const std::string& line) {
  const std::vector<std::string> lines = Lines(plan);
  return static_cast<std::size_t>(std::find(lines.begin(), lines.end(), line) - lines.begin());
}

// Why: an untested program replaced a working one.
TEST(ServicePlanTest, TriesTheNewProgramsAndKeepsTheOldOnesUntilTheDaemonAnswers) {
  for (const ServiceManager manager : {ServiceManager::kSystemd, ServiceManager::kLaunchd}) {
    const ServicePlan plan = PlanInstall(Installed(manager), {});
    const std::size_t tried = PlaceOf(plan, "run /usr/local/bin/.mlxcommd.new --version");
    const std::size_t moved =
        PlaceOf(plan, "move /usr/local/bin/.mlxcommd.new to /usr/local/bin/mlxcommd");
    const std::size_t kept =
        PlaceOf(plan, "copy /usr/local/bin/mlxcommd to /usr/local/bin/.mlxcommd.old");
    const std::size_t answers =
        PlaceOf(plan, "wait until mlxcommd answers at /var/run/mlxcommd/mlxcommd.sock");
    EXPECT_LT(tried, moved);
    EXPECT_LT(kept, moved);
    EXPECT_LT(moved, answers);
    EXPECT_LT(answers, PlaceOf(plan, "remove /usr/local/bin/.mlxcommd.old"));
    ASSERT_LT(PlaceOf(plan, "remove /usr/local/bin/.mlxcommd.old"), plan.steps.size());
    if (manager == ServiceManager::kSystemd) continue;
    EXPECT_LT(PlaceOf(plan, "move /usr/local/lib/mlxcomm.new to /usr/local/lib/mlxcomm"), tried);
    EXPECT_LT(answers, PlaceOf(plan, "remove /usr/local/lib/mlxcomm.old"));
  }
}

TEST(ServicePlanTest, RestoresAndRestartsTheOldProgramsIfTheNewDaemonDoesNotAnswer) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.definition = "the old unit";
  ServicePlan plan = PlanInstall(facts, {});
  ServicePlan back;
  back.steps = plan.restore;
  EXPECT_THAT(
      Lines(back),
      ElementsAre("restore /usr/local/bin/mlxcommd from /usr/local/bin/.mlxcommd.old",
                  "restore /usr/local/bin/mlxcommctl from /usr/local/bin/.mlxcommctl.old",
                  "write /etc/systemd/system/mlxcommd.service", "run systemctl daemon-reload"));
  EXPECT_EQ(plan.restore.at(2).text, "the old unit");
  back.steps = plan.start_again;
  EXPECT_THAT(Lines(back), Contains("run systemctl restart mlxcommd.service"));
  EXPECT_LT(PlaceOf(plan, "write /etc/logrotate.d/mlxcommd"), plan.ends_at);
  EXPECT_GE(PlaceOf(plan, "run systemctl restart mlxcommd.service"), plan.ends_at);
  facts.start =
      7;  // It refuses to become a program that does not work, and continues: it is not ended for
          // that.
  plan = PlanInstall(facts, {});
  EXPECT_THAT(plan.restore, Not(IsEmpty()));
  EXPECT_THAT(plan.start_again, IsEmpty());
}

// Why: a library does not load its own name, and two users of a library share one copy.
TEST(ServicePlanTest, CopiesLibrariesOnMacosOnceRenamedAndSignedAfterEachChange) {
  ServiceFacts facts = Machine(ServiceManager::kLaunchd);
  facts.loads["/venv/bin/mlxcommd"] = {{"/brew/liba.dylib", "/brew/liba.dylib"},
                                       {"@rpath/libb.dylib", "/brew/libb.dylib"}};
  facts.loads["/venv/bin/mlxcommctl"] = {{"/brew/liba.dylib", "/brew/liba.dylib"}};
  facts.loads["/brew/liba.dylib"] = {{"/brew/liba.dylib", "/brew/liba.dylib"},
                                     {"@rpath/libb.dylib", "/brew/libb.dylib"}};
  const ServicePlan plan = PlanInstall(facts, {});
  EXPECT_THAT(plan.problems, IsEmpty());
  const std::vector<std::string> lines = Lines(plan);
  const auto count = [&lines](const std::string& line) {
    return std::count(lines.begin(), lines.end(), line);
  };
  EXPECT_EQ(count("copy /brew/liba.dylib to /usr/local/lib/mlxcomm.new/liba.dylib"), 1);
  EXPECT_EQ(count("copy /brew/libb.dylib to /usr/local/lib/mlxcomm.new/libb.dylib"), 1);
  EXPECT_EQ(count("run install_name_tool -id /usr/local/lib/mlxcomm/liba.dylib "
                  "/usr/local/lib/mlxcomm.new/liba.dylib"),
            1);
  EXPECT_EQ(count("run install_name_tool -change @rpath/libb.dylib @loader_path/libb.dylib "
                  "/usr/local/lib/mlxcomm.new/liba.dylib"),
            1);
  EXPECT_EQ(
      count("run install_name_tool -change /brew/liba.dylib @loader_path/../lib/mlxcomm/liba.dylib "
            "/usr/local/bin/.mlxcommd.new"),
      1);
  for (const char* const file :
       {"/usr/local/bin/.mlxcommd.new", "/usr/local/lib/mlxcomm.new/liba.dylib"}) {
    const std::string path = file;
    const auto ends_so = [&path](const std::string& line) { return line.ends_with(" " + path); };
    const auto last = std::find_if(lines.rbegin(), lines.rend(), ends_so);
    ASSERT_NE(last, lines.rend());
    EXPECT_EQ(*last, "run codesign --force --sign - " + path);
  }
  EXPECT_EQ(count("run launchctl bootout system/com.mlxcomm.mlxcommd"), 0);  // It is not loaded.
  EXPECT_THAT(lines, Contains("run launchctl enable system/com.mlxcomm.mlxcommd"));
}

// Why: launchd refuses to load a loaded service, even if it is not running.
TEST(ServicePlanTest, UnloadsALoadedServiceEvenIfItIsNotRunning) {
  ServiceFacts facts = Installed(ServiceManager::kLaunchd);
  facts.is_running = facts.socket_answers = false;
  for (const auto planner : {PlanInstall, PlanUninstall, PlanRestart}) {
    EXPECT_THAT(Lines(planner(facts, {})),
                Contains("run launchctl bootout " + std::string(kLaunchdService)));
  }
}

TEST(ServicePlanTest, EndsTheOldDaemonBeforeItLoadsTheNewOneOnMacos) {
  ServiceFacts facts = Installed(ServiceManager::kLaunchd);
  facts.config = "drain_timeout_ms: 20001";
  const ServicePlan plan = PlanInstall(facts, {});
  const std::vector<std::string> lines = Lines(plan);
  const auto place = [&lines](const char* line) {
    return std::find(lines.begin(), lines.end(), line);
  };
  EXPECT_LT(
      place("run launchctl bootout system/com.mlxcomm.mlxcommd"),
      place("run launchctl bootstrap system /Library/LaunchDaemons/com.mlxcomm.mlxcommd.plist"));
  const auto waits = [](const ServiceStep& step) {
    return step.kind == ServiceStep::Kind::kAwaitEnd;
  };
  const auto wait = std::find_if(plan.steps.begin(), plan.steps.end(), waits);
  ASSERT_NE(wait, plan.steps.end());
  EXPECT_GE(wait->patience_s, 31);
}

TEST(ServicePlanTest, KeepsAnInstalledProgramAndAConfiguration) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.in_place = true;
  const std::vector<std::string> lines = Lines(PlanInstall(facts, {}));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("mlxcommd.new"))));
  EXPECT_THAT(lines, Not(Contains("write /etc/mlxcommd/mlxcommd.textproto")));
}

// Why: below "/" the root is empty, which was taken for this machine's own service.
TEST(ServicePlanTest, RunsNothingForTheRootFolder) {
  for (const ServiceManager manager : {ServiceManager::kSystemd, ServiceManager::kLaunchd}) {
    ServiceFacts facts = Installed(manager);
    facts.only_files = true;
    facts.is_superuser = facts.has_manager = facts.was_booted = false;
    for (const auto planner : {PlanInstall, PlanUninstall}) {
      const ServicePlan plan = planner(facts, {.force = true});
      EXPECT_THAT(plan.problems, IsEmpty());
      for (const ServiceStep& step : plan.steps) {
        const bool is_of_launchd = !step.words.empty() && step.words[0] == "launchctl";
        const bool is_of_systemd = !step.words.empty() && step.words[0] == "systemctl";
        EXPECT_FALSE(is_of_launchd || is_of_systemd) << DescribeStep(step);
        EXPECT_NE(step.kind, ServiceStep::Kind::kAwaitSocket);
      }
    }
  }
}

// All problems are listed before anything changes, each with its remedy.
TEST(ServicePlanTest, ListsAllProblems) {
  ServiceFacts facts = Machine(ServiceManager::kSystemd);
  facts.is_superuser = facts.was_booted = false;
  facts.program_version = "";
  facts.config_trouble = "clients_max: expected 1 to 4096";
  facts.trouble_with_folders = {"/usr/local/bin: Read-only file system"};
  EXPECT_THAT(
      PlanInstall(facts, {}).problems,
      ElementsAre(AllOf(HasSubstr("only root"), HasSubstr("sudo ")),
                  HasSubstr("systemd is not running here"), HasSubstr("is not mlxcommd"),
                  AllOf(HasSubstr("clients_max"), HasSubstr("fix it")), HasSubstr("Read-only")));
  facts = Machine(ServiceManager::kSystemd);
  facts.has_manager = false;
  EXPECT_THAT(PlanInstall(facts, {}).problems,
              ElementsAre(HasSubstr("systemctl is not installed")));
  facts = Machine(ServiceManager::kSystemd);
  facts.program = "";
  EXPECT_THAT(PlanInstall(facts, {}).problems, ElementsAre(HasSubstr("--program")));
}

TEST(ServicePlanTest, WarnsIfOtherUsersMayReplaceThePrograms) {
  ServiceFacts facts = Machine(ServiceManager::kSystemd);
  EXPECT_THAT(PlanInstall(facts, {}).warnings, IsEmpty());
  facts.folders_of_others = {"/usr/local/bin"};
  EXPECT_THAT(PlanInstall(facts, {}).problems, IsEmpty());
  EXPECT_THAT(PlanInstall(facts, {}).warnings,
              ElementsAre(AllOf(HasSubstr("/usr/local/bin is writable by other users"),
                                HasSubstr("sudo chmod go-w /usr/local/bin"))));
}

TEST(ServicePlanTest, RefusesIfAPackageOrAnotherDaemonHasTheService) {
  ServiceFacts facts = Machine(ServiceManager::kSystemd);
  facts.is_packaged = true;
  EXPECT_THAT(PlanInstall(facts, {}).problems, ElementsAre(HasSubstr("apt-get remove mlxcomm")));
  EXPECT_THAT(PlanUninstall(facts, {.purge = true}).problems,
              ElementsAre(HasSubstr("apt-get purge mlxcomm")));
  EXPECT_THAT(PlanRestart(facts, {}).problems, IsEmpty());
  EXPECT_THAT(
      Lines(PlanRestart(facts, {})),
      ElementsAre("create the folder /etc/systemd/system/mlxcommd.service.d if it is missing",
                  "write /etc/systemd/system/mlxcommd.service.d/timeout.conf",
                  "run systemctl daemon-reload", "run systemctl restart mlxcommd.service",
                  HasSubstr("answers")));
  facts = Machine(ServiceManager::kSystemd);
  facts.socket_answers = true;
  EXPECT_THAT(PlanInstall(facts, {}).problems, ElementsAre(HasSubstr("not the service")));
}

TEST(ServicePlanTest, DoesNotEndRunningJobsUnlessForced) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.jobs = 2;
  for (const auto planner : {PlanInstall, PlanUninstall, PlanRestart}) {
    EXPECT_THAT(planner(facts, {}).problems,
                ElementsAre(AllOf(HasSubstr("2 jobs run"), HasSubstr("--force"))));
    EXPECT_THAT(planner(facts, {.force = true}).problems, IsEmpty());
  }
  facts.jobs = 1;
  EXPECT_THAT(PlanRestart(facts, {}).problems, ElementsAre(HasSubstr("1 job runs")));
}

// Why: an upgrade must not end jobs. A daemon that can hand over to its successor does so; only
// --force ends it at once.
TEST(ServicePlanTest, WaitsForJobsIfTheDaemonCanHandOver) {
  for (const ServiceManager manager : {ServiceManager::kSystemd, ServiceManager::kLaunchd}) {
    ServiceFacts facts = Installed(manager);
    facts.jobs = 2;
    facts.start = 7;
    const bool systemd = manager == ServiceManager::kSystemd;
    const std::string asks =
        systemd ? "run systemctl kill --kill-who=main --signal=SIGUSR2 mlxcommd.service"
                : "run launchctl kill SIGUSR2 system/com.mlxcomm.mlxcommd";
    for (const auto planner : {PlanInstall, PlanRestart}) {
      const ServicePlan plan = planner(facts, {});
      EXPECT_THAT(plan.problems, IsEmpty());
      EXPECT_THAT(Lines(plan), Contains(asks));
      EXPECT_THAT(Lines(plan), Not(Contains(HasSubstr("systemctl restart"))));
      EXPECT_THAT(Lines(plan), Not(Contains(HasSubstr("bootout"))));
      const auto waits = [](const ServiceStep& step) {
        return step.kind == ServiceStep::Kind::kAwaitNext && step.start == 7u;
      };
      EXPECT_EQ(std::count_if(plan.steps.begin(), plan.steps.end(), waits), 1);
      EXPECT_THAT(Lines(planner(facts, {.force = true})), Not(Contains(asks)));
    }
    EXPECT_EQ(Lines(PlanRestart(facts, {.no_wait = true})).back(), asks);
    EXPECT_THAT(PlanUninstall(facts, {}).problems, ElementsAre(HasSubstr("2 jobs run")));
  }
}

TEST(ServicePlanTest, CancelsOnlyAPendingOrRefusedRestart) {
  for (const ServiceManager manager : {ServiceManager::kSystemd, ServiceManager::kLaunchd}) {
    ServiceFacts facts = Installed(manager);
    facts.start = 7;
    EXPECT_THAT(PlanRestart(facts, {.cancel = true}).problems,
                ElementsAre(HasSubstr("no restart is pending")));
    facts.restart_stands = true;
    const ServicePlan plan = PlanRestart(facts, {.cancel = true});
    EXPECT_THAT(plan.problems, IsEmpty());
    EXPECT_THAT(
        Lines(plan),
        ElementsAre(manager == ServiceManager::kSystemd
                        ? "run systemctl kill --kill-who=main --signal=SIGUSR1 mlxcommd.service"
                        : "run launchctl kill SIGUSR1 system/com.mlxcomm.mlxcommd",
                    "wait until mlxcommd confirms that it does not restart"));
    EXPECT_EQ(plan.steps.back().start, 7u);
    facts.socket_answers = false;
    facts.restart_stands = false;
    EXPECT_THAT(PlanRestart(facts, {.cancel = true}).problems,
                ElementsAre(HasSubstr("does not answer")));
  }
}

TEST(ServicePlanTest, DoesNotEndADaemonIfItsJobsAreUnknown) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.jobs.reset();
  facts.jobs_trouble = "too many tools";
  EXPECT_THAT(PlanRestart(facts, {}).problems,
              ElementsAre(AllOf(HasSubstr("too many tools"), HasSubstr("--force"))));
  EXPECT_THAT(PlanRestart(facts, {.force = true}).problems, IsEmpty());
}

TEST(ServicePlanTest, RemovesTheUnitLastAndKeepsConfigurationAndIdentity) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.there.erase(kTimeoutFile);
  const ServicePlan plan = PlanUninstall(facts, {});
  EXPECT_THAT(
      Lines(plan),
      ElementsAre("run systemctl disable --now mlxcommd.service", "remove /usr/local/bin/mlxcommd",
                  "remove /usr/local/bin/mlxcommctl", "remove /etc/logrotate.d/mlxcommd",
                  "remove /etc/systemd/system/mlxcommd.service", "run systemctl daemon-reload",
                  "run systemctl reset-failed mlxcommd.service"));
  EXPECT_THAT(plan.kept,
              ElementsAre("/etc/mlxcommd/mlxcommd.textproto", "/etc/mlxcommd/key",
                          "/var/lib/mlxcommd", "/var/log/mlxcommd", "/var/log/mlxcommd.log"));
}

TEST(ServicePlanTest, PurgesTheFilesOfAnEarlierUninstall) {
  ServiceFacts facts = Machine(ServiceManager::kSystemd);
  EXPECT_THAT(PlanUninstall(facts, {.purge = true}).steps, IsEmpty());
  facts.there = {kServiceKey, kServiceState, kServiceConfigFolder};
  const ServicePlan plan = PlanUninstall(facts, {.purge = true});
  EXPECT_THAT(Lines(plan), ElementsAre("remove /etc/mlxcommd/key", "remove /var/lib/mlxcommd",
                                       "remove /etc/mlxcommd if it is empty"));
  EXPECT_THAT(plan.kept, IsEmpty());
}

TEST(ServicePlanTest, RemovesLibrariesOnlyOnMacosAndRotatedLogsOnlyWithPurge) {
  const std::string libraries = "remove /usr/local/lib/mlxcomm";
  const std::string log = "remove /var/log/mlxcommd.log.0";
  ServiceFacts facts = Installed(ServiceManager::kLaunchd);
  EXPECT_THAT(Lines(PlanUninstall(facts, {})), AllOf(Contains(libraries), Not(Contains(log))));
  EXPECT_THAT(Lines(PlanUninstall(facts, {.purge = true})), Contains(log));
}

// Why: a failed install must not restore the files of an older one.
TEST(ServicePlanTest, RemovesTheFilesOfAnInterruptedInstall) {
  ServiceFacts facts = Machine(ServiceManager::kLaunchd);
  std::vector<std::string> left;
  for (const std::string& path : RemovablePaths(facts.manager)) {
    if (path.ends_with(".new") || path.ends_with(".old")) left.push_back(path);
  }
  EXPECT_EQ(left.size(), 6u);
  facts.there = {left.begin(), left.end()};
  for (const auto planner : {PlanInstall, PlanUninstall}) {
    const ServicePlan plan = planner(facts, {});
    for (const std::string& path : left)
      EXPECT_LT(PlaceOf(plan, "remove " + path), left.size()) << path;
  }
}

// Why: `cmake --install` uses the service's folder, and uninstall removed its programs.
TEST(ServicePlanTest, KeepsProgramsThatInstallFound) {
  for (const ServiceManager manager : {ServiceManager::kSystemd, ServiceManager::kLaunchd}) {
    const auto definition_of = [manager](const ServiceFacts& facts) {
      for (const ServiceStep& step : PlanInstall(facts, {}).steps) {
        if (step.path == DefinitionPath(manager)) return step.text;
      }
      return std::string();
    };
    const std::string removes = "remove /usr/local/bin/mlxcommd";
    ServiceFacts facts = Machine(manager);
    facts.in_place = true;
    ServiceFacts installed = Installed(manager);
    installed.definition = definition_of(facts);
    EXPECT_THAT(Lines(PlanUninstall(installed, {.purge = true})), Not(Contains(removes)));
    installed.in_place = true;  // And installed once more by itself.
    installed.definition = definition_of(installed);
    EXPECT_THAT(Lines(PlanUninstall(installed, {})), Not(Contains(removes)));
    installed.in_place = false;  // Then by another, whose programs took their place.
    installed.definition = definition_of(installed);
    EXPECT_THAT(Lines(PlanUninstall(installed, {})), Contains(removes));
    installed.in_place = true;
    installed.definition = definition_of(installed);
    EXPECT_THAT(Lines(PlanUninstall(installed, {})), Contains(removes));
  }
}

TEST(ServicePlanTest, StopsAServiceWhoseDefinitionIsGone) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.is_installed = false;
  facts.there.erase(DefinitionPath(facts.manager));
  EXPECT_THAT(Lines(PlanUninstall(facts, {})), Contains("run systemctl stop mlxcommd.service"));
  EXPECT_THAT(Lines(PlanUninstall(facts, {})), Not(Contains(HasSubstr("--now"))));
  facts = Installed(ServiceManager::kLaunchd);
  facts.is_installed = false;
  EXPECT_THAT(Lines(PlanUninstall(facts, {})),
              Contains("run launchctl bootout " + std::string(kLaunchdService)));
}

// Why: an unreadable configuration was taken for an empty one.
TEST(ServicePlanTest, ReportsThatThisUserCannotReadTheConfiguration) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.config.reset();
  facts.config_is_hidden = true;
  for (const auto planner : {PlanInstall, PlanRestart})
    EXPECT_THAT(planner(facts, {.dry_run = true}).problems, Contains(HasSubstr("use sudo")));
  std::string why_not;
  EXPECT_THAT(LogsCommand(facts, 9, false, why_not), IsEmpty());
  EXPECT_THAT(why_not, HasSubstr("use sudo"));
}

TEST(ServicePlanTest, NamesTheRemedyIfLaunchdLoadsNothing) {
  for (const ServiceStep& step : PlanInstall(Machine(ServiceManager::kLaunchd), {}).steps) {
    const bool loads = step.words.size() > 1 && step.words[1] == "bootstrap";
    EXPECT_EQ(step.remedy.find("mlxcommctl service restart") != std::string::npos, loads);
  }
}

// Why: a restart removed an administrator's lines from the unit.
TEST(ServicePlanTest, RestartChangesOnlyTheTimeoutOfTheDefinition) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  const std::string unit = "write " + std::string(DefinitionPath(facts.manager));
  EXPECT_THAT(Lines(PlanRestart(facts, {})), Not(Contains(unit)));
  EXPECT_THAT(Lines(PlanInstall(facts, {})),
              AllOf(Contains(unit), Contains("remove " + std::string(kTimeoutFile))));
  EXPECT_THAT(Lines(PlanUninstall(facts, {})), Contains("remove " + std::string(kTimeoutFile)));
  facts = Installed(ServiceManager::kLaunchd);
  facts.definition =
      "<key>Nice</key><integer>1</integer><key>ExitTimeOut</key>\n<integer>15</integer>";
  EXPECT_THAT(Lines(PlanRestart(facts, {})), Not(Contains(HasSubstr("write"))));
  facts.config = "drain_timeout_ms: 60000";
  const ServicePlan plan = PlanRestart(facts, {});
  EXPECT_EQ(plan.steps.at(0).text,
            "<key>Nice</key><integer>1</integer><key>ExitTimeOut</key>\n<integer>70</integer>");
}

TEST(ServicePlanTest, RestartsOnlyAnInstalledServiceWithTheConfigurationsTimeout) {
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  facts.config = "drain_timeout_ms: 60000";
  const ServicePlan plan = PlanRestart(facts, {});
  const auto writes = [](const ServiceStep& step) {
    return step.kind == ServiceStep::Kind::kWrite;
  };
  const auto drop_in = std::find_if(plan.steps.begin(), plan.steps.end(), writes);
  ASSERT_NE(drop_in, plan.steps.end());
  EXPECT_EQ(drop_in->path, kTimeoutFile);
  EXPECT_THAT(drop_in->text, HasSubstr("[Service]\nTimeoutStopSec=70\n"));
  EXPECT_THAT(PlanRestart(Machine(ServiceManager::kSystemd), {}).problems,
              ElementsAre(HasSubstr("service install")));
}

TEST(ServicePlanTest, ShowsTheJournalOrTheLogFile) {
  std::string why_not;
  ServiceFacts facts = Installed(ServiceManager::kSystemd);
  EXPECT_THAT(LogsCommand(facts, 9, true, why_not),
              ElementsAre("journalctl", "-u", "mlxcommd.service", "-n", "9", "-f"));
  facts.config = "log { file: '/var/log/mlxcommd/a.log' }";
  EXPECT_THAT(LogsCommand(facts, 9, false, why_not),
              ElementsAre("tail", "-n", "9", "/var/log/mlxcommd/a.log"));
  facts = Installed(ServiceManager::kLaunchd);
  EXPECT_THAT(LogsCommand(facts, 9, true, why_not),
              ElementsAre("tail", "-n", "9", "-F", "/var/log/mlxcommd.log"));
  facts = Machine(ServiceManager::kSystemd);
  facts.was_booted = false;
  EXPECT_THAT(LogsCommand(facts, 9, false, why_not), IsEmpty());
  EXPECT_THAT(why_not, HasSubstr("no log"));
}

}  // namespace
}  // namespace mlxcomm::ctl
