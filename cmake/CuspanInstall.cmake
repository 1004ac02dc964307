# Installs documents and licences. The uninstall target removes the files of the last `cmake
# --install` of this build tree.
#
# Every install() rule belongs to a component: cuspan (the default of all folders), software-gpu,
# slurm (the plugin), benchmarks, or licences. CuspanPackages makes packages of the first three.
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licences)
# Libraries contained in the programs as headers or archives. Their licences require these notices.
foreach(package IN ITEMS gcc-12-base libcli11-dev libfmt-dev libprotobuf-dev libspdlog-dev libxxhash-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/third-party RENAME ${package})
  endif()
endforeach()

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
          -P ${CMAKE_SOURCE_DIR}/cmake/Uninstall.cmake)
