// The parts of Apple's frameworks that are loaded at run time and work here: assertions of power
// management, each written as a line to the file that MLXCOMM_DARWIN_ASSERTIONS names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

constexpr std::uint32_t kOnlyOne = 7;

void Write(const std::string& line) {
  const char* const path = std::getenv("MLXCOMM_DARWIN_ASSERTIONS");
  if (path == nullptr) return;
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

}  // namespace

extern "C" {

const void* CFStringCreateWithCString(const void*, const char* text, std::uint32_t) {
  return new std::string(text);
}

void CFRelease(const void* text) { delete static_cast<const std::string*>(text); }

int IOPMAssertionCreateWithName(const void* type, std::uint32_t level, const void* name,
                                std::uint32_t* id) {
  *id = kOnlyOne;
  Write("held " + *static_cast<const std::string*>(type) + " " + std::to_string(level) + " " +
        *static_cast<const std::string*>(name));
  return 0;
}

int IOPMAssertionRelease(std::uint32_t id) {
  Write("released " + std::to_string(id));
  return 0;
}
}
