# A build for development, with small batches for quick rebuilds:
#   cmake -C config/edit.cmake -S . -B build/edit -G Ninja
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "Sources in a batch")
set(MLXCOMM_TESTS ON CACHE BOOL "Build the tests")
