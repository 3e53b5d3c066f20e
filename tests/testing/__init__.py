"""What users test their sagas with: the laboratory, rehearsals, the pytest plug-in."""
