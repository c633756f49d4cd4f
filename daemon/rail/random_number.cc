#include "daemon/rail/random_number.h"

#include <openssl/rand.h>

#include <cstdlib>

namespace mlxcomm::rail {

std::uint64_t RandomNumber() {
  std::uint64_t number = 0;
  while (number == 0) {
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) != 1) std::abort();
  }
  return number;
}

}  // namespace mlxcomm::rail
